import { execFile } from 'node:child_process';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  csiDrivers,
  csiStorageCapacities,
  persistentVolumeClaims,
  persistentVolumes,
  secrets,
  volumeAttributesClasses,
} from '@oarlock/api/resources';
import type { Volume } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { driverName, until, World, type WorldOptions } from '../support/csi-environment.ts';

const isRoot = process.getuid?.() === 0;
const run = promisify(execFile);
/** True if this machine has loop devices. */
const loops =
  isRoot &&
  (await run('losetup', ['--find']).then(
    () => true,
    () => false,
  ));
const claimVolume = (name: string): Volume => ({ name, persistentVolumeClaim: { claimName: name } });

describe('pod volumes', () => {
  let world: World;
  const open = async (options?: WorldOptions) => {
    world = await World.open(options);
    return world.plugin();
  };
  afterEach(() => world[Symbol.asyncDispose]());
  const content = () => readdir(join(world.directory, 'driver', 'content'));

  it('inline volumes are created and deleted with the pod', async () => {
    const plugin = await open();
    const request = world.request('one', { name: 'scratch', csi: { driver: driverName, volumeAttributes: { any: 'thing' } } });
    const { hostPath } = await plugin.mount(request);
    await writeFile(join(hostPath, 'file'), 'x');
    await plugin.mount(request);
    expect(await readFile(join(hostPath, 'file'), 'utf8')).toBe('x');
    expect(await content()).toHaveLength(1);
    await plugin.unmount(request);
    expect(await content()).toEqual([]);
  });

  it('inline volumes are rejected if the CSIDriver lacks the lifecycle mode', async () => {
    const plugin = await open({ csiDriver: { volumeLifecycleModes: ['Persistent'] } });
    await expect(plugin.mount(world.request('one', { name: 'scratch', csi: { driver: driverName } }))).rejects.toThrow(
      `volume mode "Ephemeral" not supported by driver ${driverName} (only supports ["Persistent"])`,
    );
  });

  it('ReadWriteOncePod volumes are mounted for a second pod only after the first is gone', async () => {
    const plugin = await open();
    const volume = await world.bind(await world.claim('alone', { accessModes: ['ReadWriteOncePod'] }));
    const [one, two] = ['one', 'two'].map((pod) => world.request(pod, claimVolume('alone'), volume));
    if (!one || !two) throw new Error('no requests');
    await plugin.mount(one);
    await expect(plugin.mount(two)).rejects.toThrow('volume uses the ReadWriteOncePod access mode and is already in use by another pod');
    await plugin.unmount(one);
    await plugin.unmount(two);
    await plugin.mount(two);
    await plugin.unmount(two);
  });

  it.skipIf(!loops)('block volumes are block devices and are expanded while they are used', async () => {
    const plugin = await open();
    const claim = await world.claim('block', { volumeMode: 'Block', resources: { requests: { storage: '8Mi' } } });
    const volume = await world.bind(claim);
    const request = world.request('one', claimVolume('block'), volume);
    const { hostPath, device } = await plugin.mount(request);
    expect(device).toBe(true);
    expect((await stat(hostPath)).isBlockDevice()).toBe(true);
    const size = async () => Number((await run('blockdev', ['--getsize64', hostPath])).stdout);
    expect(await size()).toBe(8 * 2 ** 20);
    await writeFile(hostPath, 'on the device');
    const name = { namespace: 'default', name: 'block' };
    await world.api.client().patch(persistentVolumeClaims, name, 'merge', { spec: { resources: { requests: { storage: '16Mi' } } } });
    await until(() => (world.api.object(persistentVolumeClaims, name)?.status?.capacity?.['storage'] === '16Mi' ? true : undefined));
    expect(world.api.object(persistentVolumeClaims, name)?.status?.allocatedResourceStatuses).toBeUndefined();
    expect(await size()).toBe(16 * 2 ** 20);
    expect(world.events.join('\n')).toMatch(/Normal FileSystemResizeSuccessful/);
    await plugin.unmount(request);
    const { stdout } = await run('losetup', [
      '--associated',
      join(world.directory, 'driver', 'content', volume.spec?.csi?.volumeHandle ?? ''),
    ]);
    expect(stdout).toBe('');
  });

  it.skipIf(!isRoot)('are mounted with the mount options of their class', async () => {
    const plugin = await open();
    const volume = await world.bind(await world.claim('data'));
    const flagged = { ...volume, spec: { ...volume.spec, mountOptions: ['noexec', 'nodev'] } };
    const request = world.request('one', claimVolume('data'), flagged);
    const { hostPath } = await plugin.mount(request);
    const line = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').find((each) => each.split(' ')[4] === hostPath);
    expect(line?.split(' ')[5]).toMatch(/nodev.*noexec/);
    await plugin.unmount(request);
  });

  it('pass secrets and service account tokens that the CSIDriver requests', async () => {
    const plugin = await open({ csiDriver: { tokenRequests: [{ audience: 'vault' }] } });
    world.api.seed(secrets, { metadata: { namespace: 'default', name: 'key' }, data: { password: Buffer.from('x').toString('base64') } });
    const asked: unknown[] = [];
    const inline: Volume = { name: 'scratch', csi: { driver: driverName, nodePublishSecretRef: { name: 'key' } } };
    const request = world.request('one', inline, undefined, {
      serviceAccountToken: (wanted) => {
        asked.push(wanted);
        return Promise.resolve({ token: 't', expirationTimestamp: '2026-01-01T00:00:00Z' });
      },
    });
    await plugin.mount(request);
    expect(asked).toEqual([{ audience: 'vault' }]);
    await plugin.unmount(request);
    const missing = world.request('two', { ...inline, csi: { driver: driverName, nodePublishSecretRef: { name: 'none' } } });
    await expect(plugin.mount({ ...missing, serviceAccountToken: request.serviceAccountToken as never })).rejects.toThrow(/not found/);
    await plugin.unmount(missing);
  });

  it('are modified to the VolumeAttributesClass of their claim, or report why not', async () => {
    await open({ driver: { mutable: ['speed'] } });
    for (const [name, parameters] of Object.entries({ fast: { speed: 'high' }, wrong: { colour: 'blue' } }))
      world.api.seed(volumeAttributesClasses, { metadata: { name }, driverName, parameters });
    const volume = await world.bind(await world.claim('data'));
    const name = { namespace: 'default', name: 'data' };
    const status = () => world.api.object(persistentVolumeClaims, name)?.status;
    const ask = (volumeAttributesClassName: string) =>
      world.api.client().patch(persistentVolumeClaims, name, 'merge', { spec: { volumeAttributesClassName } });
    await ask('wrong');
    await until(() => (status()?.modifyVolumeStatus?.status === 'Infeasible' ? true : undefined));
    await ask('fast');
    await until(() => (status()?.currentVolumeAttributesClassName === 'fast' ? true : undefined));
    expect(status()?.modifyVolumeStatus).toBeUndefined();
    expect(world.api.object(persistentVolumes, { name: volume.metadata?.name ?? '' })?.spec?.volumeAttributesClassName).toBe('fast');
    // a claim that returns from an infeasible class has its old class
    await ask('wrong');
    await until(() => (status()?.modifyVolumeStatus?.status === 'Infeasible' ? true : undefined));
    await ask('fast');
    await until(() => (status()?.modifyVolumeStatus === undefined ? true : undefined));
    expect(status()?.currentVolumeAttributesClassName).toBe('fast');
  });

  it('are expanded and modified at the same time, and neither restores conditions that the other removed', async () => {
    const plugin = await open({ driver: { mutable: ['speed'], nodeExpansion: true } });
    world.api.seed(volumeAttributesClasses, { metadata: { name: 'fast' }, driverName, parameters: { speed: 'high' } });
    const volume = await world.bind(await world.claim('data'));
    const name = { namespace: 'default', name: 'data' };
    const status = () => world.api.object(persistentVolumeClaims, name)?.status;
    const spec = { volumeAttributesClassName: 'fast', resources: { requests: { storage: '2Gi' } } };
    await world.api.client().patch(persistentVolumeClaims, name, 'merge', { spec });
    const waits = () => status()?.allocatedResourceStatuses?.['storage'] === 'NodeResizePending';
    await until(() => (status()?.currentVolumeAttributesClassName === 'fast' && waits() ? true : undefined));
    expect(status()?.conditions?.map(({ type }) => type)).toEqual(['FileSystemResizePending']);
    const request = world.request('one', { name: 'data', persistentVolumeClaim: { claimName: 'data' } }, volume);
    const claim = await world.api.client().get(persistentVolumeClaims, name);
    const persistentVolume = await world.api.client().get(persistentVolumes, { name: volume.metadata?.name ?? '' });
    await plugin.mount({ ...request, claim, persistentVolume });
    expect(status()?.capacity).toEqual({ storage: '2Gi' });
    expect(status()?.conditions ?? []).toEqual([]);
    await plugin.unmount(request);
  });

  it('reduce the capacity that the driver reports', async () => {
    await open({ csiDriver: { storageCapacity: true } });
    const free = () => world.api.objects(csiStorageCapacities)[0]?.capacity;
    await until(() => (free() === '10Gi' ? true : undefined));
    expect(world.api.objects(csiStorageCapacities)[0]).toMatchObject({
      storageClassName: 'standard',
      nodeTopology: { matchLabels: { [`topology.${driverName}/node`]: 'here' } },
    });
    await world.bind(await world.claim('data'));
    await until(() => (free() === '9Gi' ? true : undefined));
    expect(world.api.object(csiDrivers, { name: driverName })?.spec.storageCapacity).toBe(true);
  });
});
