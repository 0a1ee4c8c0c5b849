import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { VolumeError, type VolumeDriver } from '@oarlock/spi/volume';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { StorageMetrics } from '../../src/metrics/storage-metrics.ts';
import { NodePaths } from '../../src/config/node-paths.ts';
import { VolumeManager, type VolumeMountErrors } from '../../src/volumes/volume-manager.ts';

const pod: Pod = {
  metadata: { namespace: 'default', name: 'web', uid: 'u' },
  spec: {
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'claim' } },
      { name: 'lost', persistentVolumeClaim: { claimName: 'none' } },
      { name: 'own', emptyDir: {} },
    ],
    containers: [{ name: 'c', volumeMounts: ['data', 'lost', 'own'].map((name) => ({ name, mountPath: `/${name}` })) }],
  },
};

describe('volumes that cannot be mounted', () => {
  it('have the name of their PersistentVolume and the step that failed', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    api.seed(persistentVolumes, { metadata: { name: 'pv' }, spec: {} });
    api.seed(persistentVolumeClaims, {
      metadata: { namespace: 'default', name: 'claim' },
      spec: { volumeName: 'pv' },
      status: { phase: 'Bound' },
    });
    const failing: VolumeDriver = {
      supports: () => true,
      mount: ({ volume }) =>
        Promise.reject(
          volume.name === 'data' ? new VolumeError('Failed', 'no disk', { operation: 'MountDevice' }) : new Error('no directory'),
        ),
      unmount: () => Promise.resolve(),
    };
    const registry = new Registry();
    const manager = new VolumeManager({
      drivers: new Map([['failing', failing]]),
      client: api.client(),
      paths: new NodePaths('/nowhere'),
      tokens: {} as never,
      metrics: new StorageMetrics([registry], new FakeClock()),
    });
    const error = await manager
      .mount(pod, new Map(), { signal: new AbortController().signal, spanContext: undefined })
      .catch((reason: unknown) => reason as VolumeMountErrors);
    expect((error as VolumeMountErrors).failures).toEqual([
      { podVolume: 'data', volume: 'pv', operation: 'MountDevice', message: 'no disk', code: 'Failed' },
      { podVolume: 'lost', volume: 'lost', operation: 'SetUp', message: 'persistentvolumeclaims "none" not found', code: undefined },
      { podVolume: 'own', volume: 'own', operation: 'SetUp', message: 'no directory', code: undefined },
    ]);
    const failed = 'volume_plugin="kubernetes.io/failing",operation_name="volume_mount",status="fail-unknown",migrated="false"';
    expect(await registry.metrics()).toContain(`storage_operation_duration_seconds_count{${failed}} 2\n`);
    await api.stop();
  });
});
