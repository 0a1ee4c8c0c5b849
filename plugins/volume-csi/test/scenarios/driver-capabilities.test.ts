import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  secrets,
  storageClasses,
} from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { cloneFinalizer } from '../../src/sidecars/internal/clone-protection.ts';
import { until, World, type WorldOptions } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName, type PlainDriverOptions } from '../support/plain-driver.ts';

let world: World;
let driver: PlainDriver;
afterEach(() => world[Symbol.asyncDispose]());

async function open(options: PlainDriverOptions = {}, central = false, more: WorldOptions = {}) {
  driver = new PlainDriver(options);
  const other = { name: plainDriverName, serve: (endpoint: string, directory: string) => driver.serve(endpoint, directory) };
  world = await World.open({ other, ...more });
  const listening = { socket: join(world.directory, 'csi.sock'), provision: true, central, csiDriver: more.csiDriver ?? {} };
  return world.plugin({ drivers: [{ ...listening, storageClass: { name: 'standard' } }] });
}
const nameOf = (name: string) => ({ namespace: 'default', name });
const claimOf = (name: string) => world.api.object(persistentVolumeClaims, nameOf(name));
const eventOf = (pattern: RegExp) => until(() => world.events.find((line) => pattern.test(line)));
const request = (name: string, storage: string) =>
  world.api.client().patch(persistentVolumeClaims, nameOf(name), 'merge', { spec: { resources: { requests: { storage } } } });
const volumes = () => readdir(join(world.directory, 'driver', 'volumes'));
const fromClaim = { dataSource: { kind: 'PersistentVolumeClaim', name: 'data' } };

describe('a driver that expands volumes on nodes only', () => {
  it('gets NodeExpandVolume with the secret of the class when a pod uses the volume', async () => {
    const plugin = await open({ nodeCapabilities: ['NODE_EXPAND_VOLUME'] });
    expect(world.api.object(storageClasses, { name: 'standard' })?.allowVolumeExpansion).toBe(true);
    world.api.seed(secrets, { metadata: nameOf('data-key'), data: { key: Buffer.from('x').toString('base64') } });
    world.api.seed(storageClasses, {
      metadata: { name: 'encrypted' },
      provisioner: plainDriverName,
      parameters: {
        'csi.storage.k8s.io/node-expand-secret-name': '${pvc.name}-key',
        'csi.storage.k8s.io/node-expand-secret-namespace': '${pvc.namespace}',
        other: 'value',
      },
    });
    const volume = await world.bind(await world.claim('data', { storageClassName: 'encrypted' }));
    expect(volume.spec?.csi?.nodeExpandSecretRef).toEqual(nameOf('data-key'));
    expect(driver.requests.find(({ method }) => method === 'CreateVolume')?.request['parameters']).toEqual({ other: 'value' });
    await request('data', '3Gi');
    await until(() => claimOf('data')?.status?.allocatedResourceStatuses?.['storage']);
    expect(claimOf('data')?.status).toMatchObject({
      capacity: { storage: '1Gi' },
      allocatedResourceStatuses: { storage: 'NodeResizePending' },
      conditions: [{ type: 'FileSystemResizePending', status: 'True' }],
    });
    await eventOf(/Normal FileSystemResizeRequired Require file system resize of volume on node/);
    const mounted = world.request('pod', { name: 'v', persistentVolumeClaim: { claimName: 'data' } }, volume);
    const present = await world.api.client().get(persistentVolumes, { name: volume.metadata?.name ?? '' });
    expect(present.spec?.capacity).toEqual({ storage: '3Gi' });
    await plugin.mount({ ...mounted, persistentVolume: present, claim: claimOf('data') as PersistentVolumeClaim });
    expect(driver.requests.find(({ method }) => method === 'NodeExpandVolume')?.request).toMatchObject({
      volumeId: volume.spec?.csi?.volumeHandle,
      capacityRange: { requiredBytes: 3 * 2 ** 30 },
      secrets: { key: 'x' },
    });
    expect(claimOf('data')?.status?.capacity).toEqual({ storage: '3Gi' });
    await plugin.unmount(mounted);
  });
});

describe('a driver with one controller for several topologies', () => {
  const zone = 'plain.csi.example.com/zone';
  const capacities = () =>
    Object.fromEntries(
      world.api.objects(csiStorageCapacities).map(({ nodeTopology, capacity }) => [nodeTopology?.matchLabels?.[zone], capacity]),
    );
  const node = (name: string, value: string) => {
    world.api.seed(nodes, { metadata: { name, labels: { [zone]: value } } });
    world.api.seed(csiNodes, {
      metadata: { name },
      spec: { drivers: [{ name: plainDriverName, nodeID: name, topologyKeys: [zone] }] },
    });
  };

  it('has a CSIStorageCapacity for each of them while the CSIDriver has storageCapacity', async () => {
    const sizes: Readonly<Record<string, number>> = { a: 2 ** 40, b: 3 * 2 ** 30 };
    await open(
      {
        topology: { [zone]: 'a' },
        controllerCapabilities: ['GET_CAPACITY'],
        capacity: (segments) => sizes[segments[zone] ?? ''] ?? 0,
      },
      true,
      { csiDriver: { storageCapacity: true } },
    );
    await until(() => capacities()['a']);
    node('there', 'b');
    await until(() => capacities()['b']);
    expect(capacities()).toEqual({ a: '1024Gi', b: '3Gi' });
    await world.api.client().delete(csiNodes, { name: 'there' });
    await until(() => (capacities()['b'] === undefined ? true : undefined));
    await world.api.client().patch(csiDrivers, { name: plainDriverName }, 'merge', { spec: { storageCapacity: false } });
    await until(() => (world.api.objects(csiStorageCapacities).length === 0 ? true : undefined));
  });
});

describe('a clone', () => {
  it('protects its source from deletion until it is bound', async () => {
    await open({ controllerCapabilities: ['CLONE_VOLUME'] });
    const volume = await world.bind(await world.claim('data'));
    await writeFile(join(world.directory, 'driver', 'volumes', volume.spec?.csi?.volumeHandle ?? '', 'file'), 'content');
    const clone = await world.claim('clone', fromClaim);
    const created = await world.volumeOf(clone);
    expect(await readFile(join(world.directory, 'driver', 'volumes', created.spec?.csi?.volumeHandle ?? '', 'file'), 'utf8')).toBe(
      'content',
    );
    expect(claimOf('data')?.metadata?.finalizers).toContain(cloneFinalizer);
    await world.bind(clone);
    await until(() => (claimOf('data')?.metadata?.finalizers?.includes(cloneFinalizer) === true ? undefined : true));
  });

  it('releases its source when it is deleted before it has a volume', async () => {
    await open({
      controllerCapabilities: ['CLONE_VOLUME'],
      answers: { CreateVolume: (answer, { volumeContentSource }) => (volumeContentSource ? { volume: { volumeId: '' } } : answer) },
    });
    await world.bind(await world.claim('data'));
    await world.claim('clone', fromClaim);
    await eventOf(/ProvisioningFailed .*volume.volume_id "" must not be empty/);
    expect(claimOf('data')?.metadata?.finalizers).toContain(cloneFinalizer);
    await world.api.client().delete(persistentVolumeClaims, nameOf('clone'));
    await until(() => (claimOf('data')?.metadata?.finalizers?.includes(cloneFinalizer) === true ? undefined : true));
  });

  it('is rejected by a driver that cannot clone', async () => {
    await open();
    await world.bind(await world.claim('data'));
    await world.claim('clone', fromClaim);
    await eventOf(
      /ProvisioningFailed failed to provision volume with StorageClass "standard": CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported/,
    );
  });
});

describe('a created volume that is not what was requested', () => {
  it('is deleted if it is smaller', async () => {
    await open({ answers: { CreateVolume: ({ volume }) => ({ volume: { ...volume, capacityBytes: 1000 } }) } });
    await world.claim('data');
    await eventOf(/ProvisioningFailed .*: created volume capacity 1000 less than requested capacity 1073741824$/);
    await until(async () => ((await volumes()).length === 0 ? true : undefined));
  });

  it('is deleted if its content source is missing', async () => {
    await open({
      controllerCapabilities: ['CLONE_VOLUME'],
      answers: { CreateVolume: ({ volume }) => ({ volume: { ...volume, contentSource: undefined } }) },
    });
    await world.bind(await world.claim('data'));
    await world.claim('clone', fromClaim);
    await eventOf(/ProvisioningFailed .*: volume content source missing$/);
    await until(() => (driver.calls.includes('DeleteVolume') ? true : undefined));
  });

  it('is kept if its PersistentVolume exists', async () => {
    await open({
      answers: {
        CreateVolume: async ({ volume }) => {
          // another process has created the PersistentVolume between this process' look and its call
          const spec = { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], csi: { driver: 'd', volumeHandle: 'h' } };
          await world.api
            .client()
            .create(persistentVolumes, { metadata: { name: volume.volumeId }, spec })
            .catch(() => {});
          return { volume: { ...volume, capacityBytes: 1000 } };
        },
      },
    });
    await world.claim('data');
    await eventOf(/ProvisioningFailed .*: created volume capacity 1000 less than/);
    expect(driver.calls).not.toContain('DeleteVolume');
  });
});
