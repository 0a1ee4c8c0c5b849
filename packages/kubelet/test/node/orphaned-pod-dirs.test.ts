import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { VolumeError, type VolumeDriver } from '@oarlock/spi/volume';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Bench, podOf, withTraits } from '../support/bench.ts';

const waiting = { timeout: 120_000, interval: 5 };
const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

/** A driver that registers some time after the kubelet starts. */
class LateDriver implements VolumeDriver {
  registered = false;
  unmountCalls = 0;
  supports(): boolean {
    return true;
  }
  mount({ path }: { readonly path: string }) {
    return Promise.resolve({ hostPath: join(path, 'mount') });
  }
  unmount(): Promise<void> {
    this.unmountCalls++;
    return this.registered ? Promise.resolve() : Promise.reject(new VolumeError('NotReady', 'the driver is not registered'));
  }
}

describe('OrphanedPodDirs', () => {
  const late = new LateDriver();
  const bench = new Bench({
    wrap: (runtime) => withTraits(runtime, { simulated: false }),
    config: { files: true },
    volumes: new Map([['late', late]]),
  });
  afterEach(() => bench.dispose());

  it('retries the removal until the volume driver is available, and keeps directories of known pods', async () => {
    const { paths } = bench.kubelet.context;
    const volume = paths.volume('uid-gone', { driver: 'late', volume: 'data', inMemory: false });
    const logs = paths.podLogs({ metadata: { namespace: 'default', name: 'gone', uid: 'uid-gone' } });
    const unseen = paths.podLogs({ metadata: { namespace: 'default', name: 'unseen', uid: 'uid-unseen' } });
    const kept = paths.podLogs({ metadata: { namespace: 'default', name: 'kept', uid: 'uid-kept' } });
    for (const path of [volume, join(logs, 'app'), join(unseen, 'app'), join(kept, 'app')]) await mkdir(path, { recursive: true });
    const pod = podOf('kept');
    bench.create({ ...pod, metadata: { ...pod.metadata, uid: 'uid-kept' } });
    await bench.start();
    await vi.waitFor(async () => {
      await bench.clock.advance(1_000);
      expect(late.unmountCalls).toBeGreaterThan(2);
    }, waiting);
    expect(await Promise.all([volume, logs].map(isThere))).toEqual([true, true]);
    expect(await bench.registry.metrics()).toContain('kubelet_orphan_pod_cleaned_volumes_errors 1\n');
    late.registered = true;
    await vi.waitFor(async () => {
      await bench.clock.advance(10_000);
      expect(await Promise.all([paths.pod('uid-gone'), logs, unseen].map(isThere))).toEqual([false, false, false]);
    }, waiting);
    expect(await isThere(kept)).toBe(true);
    const swept = await bench.registry.metrics();
    expect(swept).toContain('kubelet_orphan_pod_cleaned_volumes 1\n');
    expect(swept).toContain('kubelet_orphan_pod_cleaned_volumes_errors 0\n');
  });
});
