import { link, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { Volume } from '@oarlock/api/types/core-v1';
import type { MountedTarget, VolumeDriver, VolumeUsage } from '@oarlock/spi/volume';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StatsSummary } from '../../src/server/stats/stats-summary.ts';
import { directorySize } from '../../src/volumes/tree-size.ts';
import { registerVolumeClaimMetrics } from '../../src/server/stats/volume-claim-metrics.ts';
import { app, Bench, isReady, podOf, withTraits } from '../support/bench.ts';

const usage: VolumeUsage = { capacityBytes: 1000, usedBytes: 400, availableBytes: 500, inodes: 30, inodesUsed: 10, inodesFree: 20 };
const reported = { capacityBytes: 1000, usedBytes: 400, availableBytes: 500, inodes: 30, inodesUsed: 10, inodesFree: 20 };
const waiting = { timeout: 120_000, interval: 5 };
const claimOf = (name: string): Volume => ({ name: 'data', persistentVolumeClaim: { claimName: name } });

/** A driver of volumes with claims that answers as the test defines. */
class AnsweringDriver implements VolumeDriver {
  readonly requests: MountedTarget[] = [];
  answer: (signal: AbortSignal) => Promise<VolumeUsage | undefined> = () => Promise.resolve(usage);
  supports(_volume: Volume, persistentVolume: unknown): boolean {
    return persistentVolume !== undefined;
  }
  mount({ path }: { readonly path: string }) {
    return Promise.resolve({ hostPath: join(path, 'mount') });
  }
  unmount(): Promise<void> {
    return Promise.resolve();
  }
  usage(target: MountedTarget, { signal = new AbortController().signal } = {}): Promise<VolumeUsage | undefined> {
    this.requests.push(target);
    return this.answer(signal);
  }
}
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }));

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly name: string };
    readonly volume: readonly (VolumeUsage & { readonly name: string })[];
  }[];
}

describe('volume stats', () => {
  let bench: Bench;
  let driver: AnsweringDriver;
  beforeEach(async () => {
    driver = new AnsweringDriver();
    bench = await new Bench({
      wrap: (runtime) => withTraits(runtime, { simulated: false }),
      config: { files: true },
      volumes: new Map([['answering', driver]]),
    }).start();
  });
  afterEach(() => bench.dispose());

  const start = async (pod: string, volumes: readonly Volume[]) => {
    for (const { persistentVolumeClaim, ephemeral, name } of volumes) {
      const claim = persistentVolumeClaim?.claimName ?? (ephemeral && `${pod}-${name}`);
      if (claim === undefined) continue;
      bench.api.seed(persistentVolumes, { metadata: { name: `pv-${claim}` }, spec: {} });
      bench.api.seed(persistentVolumeClaims, {
        metadata: {
          namespace: 'default',
          name: claim,
          ...(ephemeral && { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: pod, uid: `uid-${pod}`, controller: true }] }),
        },
        spec: { volumeName: `pv-${claim}` },
        status: { phase: 'Bound' },
      });
    }
    const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
    const base = podOf(pod, { containers: [app({ volumeMounts })], volumes: [...volumes] });
    bench.create({ ...base, metadata: { ...base.metadata, uid: `uid-${pod}` } });
    // files are on a real disk, whose time the simulated clock does not control
    await vi.waitFor(async () => {
      await bench.clock.advance(100);
      expect(isReady(bench.pod(pod))).toBe(true);
    }, waiting);
  };
  const summary = async () => {
    const { pods } = (await new StatsSummary(bench.kubelet).read(bench.signal)) as Summary;
    return pods[0]?.volume ?? [];
  };
  const metrics = () => {
    const registry = new Registry();
    registerVolumeClaimMetrics(bench.kubelet, registry);
    return registry;
  };
  const lines = async (registry: Registry) => (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

  it('name the claim and report missing values as 0', async () => {
    driver.answer = () => Promise.resolve({ capacityBytes: 7, condition: { abnormal: false, message: 'well' } });
    await start('web', [claimOf('db')]);
    expect(await summary()).toEqual([
      {
        time: expect.any(String),
        name: 'data',
        pvcRef: { namespace: 'default', name: 'db' },
        capacityBytes: 7,
        usedBytes: 0,
        availableBytes: 0,
        inodes: 0,
        inodesUsed: 0,
        inodesFree: 0,
        volumeHealthStats: { abnormal: false },
      },
    ]);
    expect(driver.requests).toEqual([
      { podUid: 'uid-web', volumeName: 'data', path: expect.any(String), hostPath: expect.stringMatching(/\/mount$/), device: false },
    ]);
  });

  it('cover volumes of built-in drivers except hostPath', async () => {
    await start('web', [
      { name: 'scratch', emptyDir: {} },
      { name: 'labels', downwardAPI: { items: [{ path: 'name', fieldRef: { fieldPath: 'metadata.name' } }] } },
      { name: 'host', hostPath: { path: '/' } },
    ]);
    const [scratch, labels, ...more] = await summary();
    expect(more).toEqual([]);
    expect(scratch).toMatchObject({ name: 'scratch', inodesUsed: 1 });
    expect(labels).toMatchObject({ name: 'labels', inodesUsed: expect.any(Number) });
    expect(labels?.inodesUsed).toBeGreaterThan(1);
    expect(scratch?.capacityBytes).toBeGreaterThan(scratch?.availableBytes ?? 0);
    expect(await lines(metrics())).toEqual([]);
  });

  it('are measured once per period for the summary and the metrics together', async () => {
    await start('web', [claimOf('db')]);
    const registry = metrics();
    await summary();
    await Promise.all([lines(registry), summary(), summary()]);
    expect(driver.requests).toHaveLength(1);
    await bench.clock.advance(60_000);
    driver.answer = () => Promise.resolve({ ...usage, usedBytes: 401 });
    expect(await summary()).toMatchObject([{ usedBytes: 401 }]);
    expect(driver.requests).toHaveLength(2);
  });

  it('return the previous measurement while a driver hangs, and only one reader waits', async () => {
    await start('web', [claimOf('db')]);
    expect(await summary()).toMatchObject([reported]);
    driver.answer = untilAborted;
    await bench.clock.advance(60_000);
    const first = summary();
    await vi.waitFor(() => expect(driver.requests).toHaveLength(2), waiting);
    await bench.clock.advance(1_000);
    expect(await first).toMatchObject([reported]);
    // these do not wait
    expect(await summary()).toMatchObject([reported]);
    expect(await lines(metrics())).toContain('kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="db"} 400');
    expect(driver.requests).toHaveLength(2);
    // the measurement times out and is repeated
    driver.answer = () => Promise.resolve({ ...usage, usedBytes: 402 });
    await bench.clock.advance(120_000);
    expect(await summary()).toMatchObject([{ usedBytes: 402 }]);
    expect(driver.requests).toHaveLength(3);
  });

  it('leave out only the volume whose measurement failed', async () => {
    await start('web', [claimOf('db'), { name: 'scratch', emptyDir: {} }]);
    expect((await summary()).map(({ name }) => name)).toEqual(['data', 'scratch']);
    driver.answer = () => Promise.reject(new Error('broken'));
    await bench.clock.advance(60_000);
    expect((await summary()).map(({ name }) => name)).toEqual(['scratch']);
    expect(await lines(metrics())).toEqual([]);
  });

  it('have metrics only for claims, once per shared claim', async () => {
    await start('web', [claimOf('db'), { name: 'scratch', emptyDir: {} }]);
    await start('twin', [claimOf('db'), { name: 'own', ephemeral: { volumeClaimTemplate: { spec: {} } } }]);
    const series = [
      'capacity_bytes{db} 1000',
      'available_bytes{db} 500',
      'used_bytes{db} 400',
      'inodes{db} 30',
      'inodes_free{db} 20',
      'inodes_used{db} 10',
    ];
    const of = (claim: string) =>
      series.map((one) => `kubelet_volume_stats_${one.replace('{db}', `{namespace="default",persistentvolumeclaim="${claim}"}`)}`);
    expect((await lines(metrics())).sort()).toEqual([...of('db'), ...of('twin-own')].sort());
  });

  it('record one event when a volume becomes abnormal', async () => {
    await start('web', [claimOf('db')]);
    const registry = metrics();
    const abnormal = 'kubelet_volume_stats_health_status_abnormal{namespace="default",persistentvolumeclaim="db"}';
    expect((await lines(registry)).some((line) => line.startsWith(abnormal))).toBe(false);
    driver.answer = () => Promise.resolve({ ...usage, condition: { abnormal: true, message: 'a disk is lost' } });
    for (let round = 0; round < 2; round += 1) {
      await bench.clock.advance(60_000);
      expect(await lines(registry)).toContain(`${abnormal} 1`);
    }
    expect(bench.events.of('VolumeConditionAbnormal')).toEqual(['web Warning VolumeConditionAbnormal: Volume data: a disk is lost']);
  });
});

describe('directorySize', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-tree-'));
    await mkdir(join(directory, 'below'));
    await writeFile(join(directory, 'below', 'file'), Buffer.alloc(64 * 1024, 1), { flush: true });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('counts hard links once', async () => {
    const before = await directorySize(directory);
    expect(before.inodes).toBe(2);
    expect(before.bytes).toBeGreaterThanOrEqual(64 * 1024);
    await link(join(directory, 'below', 'file'), join(directory, 'again'));
    expect(await directorySize(directory)).toEqual(before);
  });

  it('rejects when the signal aborts', async () => {
    await expect(directorySize(directory, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });

  it('returns zero for a missing directory', async () => {
    expect(await directorySize(join(directory, 'none'))).toEqual({ bytes: 0, inodes: 0 });
  });
});
