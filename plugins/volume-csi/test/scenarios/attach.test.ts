import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { csiNodes, nodes, persistentVolumes, volumeAttachments } from '@oarlock/api/resources';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { driverName, until, waiting, World } from '../support/csi-environment.ts';
import type { VolumeCsi } from '../../src/volume-csi.ts';

const isRoot = process.getuid?.() === 0;

describe('attachable volumes', () => {
  let world: World;
  let plugin: VolumeCsi;
  let volume: PersistentVolume;
  beforeEach(async () => {
    world = await World.open({ driver: { attach: true }, csiDriver: { attachRequired: true } });
    plugin = await world.plugin();
    volume = await world.bind(await world.claim('data'));
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const handle = () => volume.spec?.csi?.volumeHandle ?? '';
  const unique = () => `kubernetes.io/csi/${driverName}^${handle()}`;
  const name = (node: string) => `csi-${createHash('sha256').update(`${handle()}${driverName}${node}`).digest('hex')}`;
  const attach = (node = 'here') =>
    world.api.client().create(volumeAttachments, {
      metadata: { name: name(node) },
      spec: { attacher: driverName, nodeName: node, source: { persistentVolumeName: volume.metadata?.name ?? '' } },
    });
  const attachment = (node = 'here') => world.api.object(volumeAttachments, { name: name(node) });
  /** Writes the node's volumesAttached, as the attach-detach controller does. */
  const writeAttached = (attached: boolean) =>
    world.api
      .client()
      .patch(
        nodes,
        { name: 'here' },
        'merge',
        { status: { volumesAttached: attached ? [{ name: unique(), devicePath: '' }] : null } },
        { subresource: 'status' },
      );
  const inUse = () => world.api.object(nodes, { name: 'here' })?.status?.volumesInUse ?? [];

  it('are attached for a VolumeAttachment and detached before its deletion', async () => {
    await attach();
    await until(() => (attachment()?.status?.attached === true ? true : undefined));
    expect(attachment()?.metadata?.finalizers).toEqual([`external-attacher/${driverName.replaceAll('.', '-')}`]);
    expect(world.api.object(persistentVolumes, { name: volume.metadata?.name ?? '' })?.metadata?.finalizers).toContain(
      `external-attacher/${driverName.replaceAll('.', '-')}`,
    );
    await world.api.client().delete(volumeAttachments, { name: name('here') });
    await until(() => (attachment() === undefined ? true : undefined));
  });

  it('report an attach error in the VolumeAttachment and retry', async () => {
    // another node, whose CSINode does not have the driver
    world.api.seed(csiNodes, { metadata: { name: 'here-too' }, spec: { drivers: [] } });
    await world.stopDriver();
    await attach();
    await until(() => attachment()?.status?.attachError?.message);
    expect(attachment()?.status?.attached).toBe(false);
    await world.startDriver();
    await until(() => (attachment()?.status?.attached === true ? true : undefined));
    expect(attachment()?.status?.attachError).toBeUndefined();
  });

  it.skipIf(!isRoot)('are in volumesInUse before they are mounted and until they are unmounted', async () => {
    const request = world.request('one', { name: 'data', persistentVolumeClaim: { claimName: 'data' } }, volume);
    const mounted = plugin.mount(request);
    await until(() => (inUse().length > 0 ? true : undefined));
    expect(inUse()).toEqual([unique()]);
    await attach();
    await until(() => (attachment()?.status?.attached === true ? true : undefined));
    await writeAttached(true);
    const { hostPath } = await mounted;
    await writeFile(join(hostPath, 'file'), 'x');
    // as after a restart of the process
    const next = await world.plugin();
    await vi.waitFor(() => expect(inUse()).toEqual([unique()]), waiting);
    await next.unmount(request);
    expect(inUse()).toEqual([]);
  });

  it('are not mounted with a VolumeAttachment that is being deleted', async () => {
    await attach();
    await until(() => (attachment()?.status?.attached === true ? true : undefined));
    await writeAttached(true);
    await world.stopDriver(); // so that the attachment stays
    await world.api.client().delete(volumeAttachments, { name: name('here') });
    const request = world.request('one', { name: 'data', persistentVolumeClaim: { claimName: 'data' } }, volume);
    await expect(plugin.mount(request)).rejects.toMatchObject({ code: 'NotReady' });
  });

  it('are not deleted while they are attached', async () => {
    await attach();
    await until(() => (attachment()?.status?.attached === true ? true : undefined));
    const own = { name: volume.metadata?.name ?? '' };
    await world.api.client().patch(persistentVolumes, own, 'merge', { status: { phase: 'Released' } }, { subresource: 'status' });
    await world.api.client().delete(volumeAttachments, { name: name('here') });
    await until(() => (world.api.object(persistentVolumes, own) === undefined ? true : undefined));
    expect(attachment()).toBeUndefined();
  });
});
