import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiDrivers, csiNodes, storageClasses } from '@oarlock/api/resources';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
import { volumeCsiConfig } from '../../src/driver/config.ts';
import { VolumeCsi } from '../../src/volume-csi.ts';
import { until } from '../support/csi-environment.ts';

it('creates the default StorageClass in a process without a node, and starts no driver', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'volume-csi-'));
  const api = memoryApi({ clock: new FakeClock() });
  const volumes = new VolumeCsi({
    config: volumeCsiConfig.parse({}),
    client: api.client(),
    informers: api.informers,
    events: { recorder: () => ({ event: () => undefined }) },
    clock: systemClock,
    log: silentLogger,
    dataDir,
  });
  try {
    await volumes.start();
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
  } finally {
    await volumes.stop();
    await api.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});
