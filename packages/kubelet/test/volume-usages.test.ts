import { link, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { Volume } from '@oarlock/api/types/core-v1';
import type { MountedTarget, VolumeDriver, VolumeUsage } from '@oarlock/spi/volume';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StatsSummary } from '../src/server/stats-summary.ts';
import { treeSize } from '../src/tree-size.ts';
import { registerClaimMetrics } from '../src/volumes/claim-metrics.ts';
import { app, Bench, isReady, podOf, withTraits } from './bench.ts';

const held: VolumeUsage = { capacityBytes: 1000, usedBytes: 400, availableBytes: 500, inodes: 30, inodesUsed: 10, inodesFree: 20 };
const told = { capacityBytes: 1000, usedBytes: 400, availableBytes: 500, inodes: 30, inodesUsed: 10, inodesFree: 20 };
const waiting = { timeout: 50_000, interval: 5 };
const claimOf = (name: string): Volume => ({ name: 'data', persistentVolumeClaim: { claimName: name } });

/** Volumes of claims, of which it answers what the test lets it. */
class Answering implements VolumeDriver {
  readonly asked: MountedTarget[] = [];
  answer: (signal: AbortSignal) => Promise<VolumeUsage | undefined> = () => Promise.resolve(held);
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
    this.asked.push(target);
    return this.answer(signal);
  }
}
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }));

interface Told {
  readonly pods: readonly {
    readonly podRef: { readonly name: string };
    readonly volume: readonly (VolumeUsage & { readonly name: string })[];
  }[];
}

describe("what a kubelet tells of its pods' volumes", () => {
  let bench: Bench;
  let driver: Answering;
  beforeEach(async () => {
    driver = new Answering();
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
    const made = podOf(pod, { containers: [app({ volumeMounts })], volumes: [...volumes] });
    bench.create({ ...made, metadata: { ...made.metadata, uid: `uid-${pod}` } });
    // its files are made on a real disk, which takes time that the clock knows nothing of
    await vi.waitFor(async () => {
      await bench.clock.advance(100);
      expect(isReady(bench.pod(pod))).toBe(true);
    }, waiting);
  };
  const summary = async () => {
    const { pods } = (await new StatsSummary(bench.kubelet).read(bench.signal)) as Told;
    return pods[0]?.volume ?? [];
  };
  const metrics = () => {
    const registry = new Registry();
    registerClaimMetrics(bench.kubelet, registry);
    return registry;
  };
  const lines = async (registry: Registry) => (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

  it('names claims, and says what a driver does not tell to be 0', async () => {
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
    expect(driver.asked).toEqual([
      { podUid: 'uid-web', volumeName: 'data', path: expect.any(String), hostPath: expect.stringMatching(/\/mount$/), device: false },
    ]);
  });

  it('measures what it has made itself, and nothing of the host', async () => {
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

  it('measures once for a while, for the summary and the metrics together', async () => {
    await start('web', [claimOf('db')]);
    const registry = metrics();
    await summary();
    await Promise.all([lines(registry), summary(), summary()]);
    expect(driver.asked).toHaveLength(1);
    await bench.clock.advance(60_000);
    driver.answer = () => Promise.resolve({ ...held, usedBytes: 401 });
    expect(await summary()).toMatchObject([{ usedBytes: 401 }]);
    expect(driver.asked).toHaveLength(2);
  });

  it('goes on telling what it knew while a driver hangs, and lets nobody wait for it twice', async () => {
    await start('web', [claimOf('db')]);
    expect(await summary()).toMatchObject([told]);
    driver.answer = untilAborted;
    await bench.clock.advance(60_000);
    const first = summary();
    await vi.waitFor(() => expect(driver.asked).toHaveLength(2), waiting);
    await bench.clock.advance(1_000);
    expect(await first).toMatchObject([told]);
    // no time passes for these
    expect(await summary()).toMatchObject([told]);
    expect(await lines(metrics())).toContain('kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="db"} 400');
    expect(driver.asked).toHaveLength(2);
    // what does not come is given up, and tried again
    driver.answer = () => Promise.resolve({ ...held, usedBytes: 402 });
    await bench.clock.advance(120_000);
    expect(await summary()).toMatchObject([{ usedBytes: 402 }]);
    expect(driver.asked).toHaveLength(3);
  });

  it('tells nothing of a volume that could not be measured, and of the others all', async () => {
    await start('web', [claimOf('db'), { name: 'scratch', emptyDir: {} }]);
    expect((await summary()).map(({ name }) => name)).toEqual(['data', 'scratch']);
    driver.answer = () => Promise.reject(new Error('broken'));
    await bench.clock.advance(60_000);
    expect((await summary()).map(({ name }) => name)).toEqual(['scratch']);
    expect(await lines(metrics())).toEqual([]);
  });

  it('has series of claims alone, once for those that pods share', async () => {
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

  it('says so once when a volume turns bad', async () => {
    await start('web', [claimOf('db')]);
    const registry = metrics();
    const abnormal = 'kubelet_volume_stats_health_status_abnormal{namespace="default",persistentvolumeclaim="db"}';
    expect((await lines(registry)).some((line) => line.startsWith(abnormal))).toBe(false);
    driver.answer = () => Promise.resolve({ ...held, condition: { abnormal: true, message: 'a disk is lost' } });
    for (let round = 0; round < 2; round += 1) {
      await bench.clock.advance(60_000);
      expect(await lines(registry)).toContain(`${abnormal} 1`);
    }
    expect(bench.events.of('VolumeConditionAbnormal')).toEqual(['web Warning VolumeConditionAbnormal: Volume data: a disk is lost']);
  });
});

describe('the size of a tree', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-tree-'));
    await mkdir(join(directory, 'below'));
    await writeFile(join(directory, 'below', 'file'), Buffer.alloc(64 * 1024, 1), { flush: true });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('has what is below once, however many names it has', async () => {
    const before = await treeSize(directory);
    expect(before.inodes).toBe(2);
    expect(before.bytes).toBeGreaterThanOrEqual(64 * 1024);
    await link(join(directory, 'below', 'file'), join(directory, 'again'));
    expect(await treeSize(directory)).toEqual(before);
  });

  it('is not looked for any longer than somebody waits for it', async () => {
    await expect(treeSize(directory, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });

  it('is nothing where nothing is', async () => {
    expect(await treeSize(join(directory, 'none'))).toEqual({ bytes: 0, inodes: 0 });
  });
});
