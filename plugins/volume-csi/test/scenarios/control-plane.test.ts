import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiDrivers, csiNodes, storageClasses } from '@oarlock/api/resources';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
import { volumeCsiConfig } from '../../src/driver/config.ts';
import { VolumeCsi } from '../../src/volume-csi.ts';
import { until } from '../support/csi-environment.ts';

/** Runs the plugin in a process without a node until the test has seen what it expects. */
async function withControlPlane(config: object, test: (world: { readonly api: MemoryApi; readonly dataDir: string }) => Promise<void>) {
  const dataDir = await mkdtemp(join(tmpdir(), 'volume-csi-'));
  const api = memoryApi({ clock: new FakeClock() });
  const volumes = new VolumeCsi({
    config: volumeCsiConfig.parse(config),
    client: api.client(),
    informers: api.informers,
    events: { recorder: () => ({ event: () => undefined }) },
    clock: systemClock,
    log: silentLogger,
    dataDir,
  });
  try {
    await volumes.start();
    await test({ api, dataDir });
  } finally {
    await volumes.stop();
    await api.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

it('creates the default StorageClass in a process without a node, and starts no driver', () =>
  withControlPlane({}, async ({ api, dataDir }) => {
    const instance = await until(() => api.object(storageClasses, { name: 'standard' }));
    expect(instance).toMatchObject({
      metadata: { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
      provisioner: 'hostpath.csi.oarlock.dev',
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    });
    expect(api.object(csiDrivers, { name: 'hostpath.csi.oarlock.dev' })?.spec.attachRequired).toBe(false);
    expect((await api.client().list(csiNodes)).items).toEqual([]);
    expect(await readdir(dataDir)).toEqual([]);
  }));

it('creates the CSIDriver and StorageClass of a driver that runs on nodes only, if the file names it', () =>
  withControlPlane(
    {
      drivers: [
        {
          name: 'nfs.example.com',
          socket: '/run/csi/nfs.sock',
          csiDriver: { attachRequired: false },
          storageClass: { name: 'nfs', default: false, allowVolumeExpansion: true },
        },
      ],
    },
    async ({ api }) => {
      const instance = await until(() => api.object(storageClasses, { name: 'nfs' }));
      expect(instance).toMatchObject({ provisioner: 'nfs.example.com', allowVolumeExpansion: true });
      expect(instance.metadata?.annotations).toBeUndefined();
      expect(api.object(csiDrivers, { name: 'nfs.example.com' })?.spec.attachRequired).toBe(false);
    },
  ));
