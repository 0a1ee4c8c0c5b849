import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { csiDrivers, csiNodes, nodes, persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { driverName, waiting, World } from '../support/csi-environment.ts';

describe('Provisioner', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.open();
    await world.plugin();
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const volumeOf = ({ metadata }: PersistentVolumeClaim) =>
    vi.waitFor(() => {
      const volume = world.api.object(persistentVolumes, { name: `pvc-${metadata?.uid}` });
      if (volume === undefined) throw new Error('no volume has been created');
      return volume;
    }, waiting);
  const bind = async (claim: PersistentVolumeClaim, volume: PersistentVolume) => {
    const client = world.api.client();
    const name = { namespace: 'default', name: claim.metadata?.name ?? '' };
    await client.patch(persistentVolumeClaims, name, 'merge', { spec: { volumeName: volume.metadata?.name } });
    const status = { phase: 'Bound', capacity: { storage: '1Gi' } };
    await client.patch(persistentVolumeClaims, name, 'merge', { status }, { subresource: 'status' });
    await client.patch(
      persistentVolumes,
      { name: volume.metadata?.name ?? '' },
      'merge',
      { status: { phase: 'Bound' } },
      { subresource: 'status' },
    );
  };
  const content = () => readdir(join(world.directory, 'driver', 'content'));
  const messages = (text: RegExp) => vi.waitFor(() => expect(world.events.join('\n')).toMatch(text), waiting);

  it('finds the CSIDriver, the StorageClass and the CSINode with its topology', () => {
    const key = `topology.${driverName}/node`;
    expect(world.api.object(csiDrivers, { name: driverName })?.spec).toMatchObject({ attachRequired: false, fsGroupPolicy: 'File' });
    expect(world.hasClass).toBe(true);
    expect(world.api.object(csiNodes, { name: 'here' })?.spec.drivers).toEqual([{ name: driverName, nodeID: 'here', topologyKeys: [key] }]);
    expect(world.api.object(nodes, { name: 'here' })?.metadata?.labels).toEqual({ [key]: 'here' });
  });

  it('creates volumes for claims, with the node affinity of their node', async () => {
    const claim = await world.claim('data');
    const volume = await volumeOf(claim);
    expect(volume).toMatchObject({
      metadata: { annotations: { 'pv.kubernetes.io/provisioned-by': driverName } },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        claimRef: { namespace: 'default', name: 'data', uid: claim.metadata?.uid },
        persistentVolumeReclaimPolicy: 'Delete',
        storageClassName: 'standard',
        csi: { driver: driverName, volumeHandle: expect.any(String) },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: `topology.${driverName}/node`, operator: 'In', values: ['here'] }] }],
          },
        },
      },
    });
    await messages(/Normal Provisioning External provisioner is provisioning volume for claim "default\/data"/);
    await messages(/Normal ProvisioningSucceeded Successfully provisioned volume pvc-/);
  });

  it('creates no volumes for claims of other nodes or drivers, or before a node is selected', async () => {
    await world.claim('elsewhere', {}, 'there');
    await world.claim('waiting', {}, null);
    const mine = await world.claim('mine');
    await volumeOf(mine);
    expect(world.api.objects(persistentVolumes)).toHaveLength(1);
  });

  it('reports why a volume cannot be created, and removes the selected node if its capacity is exhausted', async () => {
    await world.claim('large', { resources: { requests: { storage: '11Gi' } } });
    await messages(
      /Warning ProvisioningFailed failed to provision volume with StorageClass "standard": rpc error: code = ResourceExhausted/,
    );
    await vi.waitFor(
      () =>
        expect(world.api.object(persistentVolumeClaims, { namespace: 'default', name: 'large' })?.metadata?.annotations).not.toHaveProperty(
          ['volume.kubernetes.io/selected-node'],
        ),
      waiting,
    );
  });

  it('expands a volume when its claim requests more', async () => {
    const claim = await world.claim('data');
    const volume = await volumeOf(claim);
    await bind(claim, volume);
    await world.api.client().patch(persistentVolumeClaims, { namespace: 'default', name: 'data' }, 'merge', {
      spec: { resources: { requests: { storage: '3Gi' } } },
    });
    await vi.waitFor(
      () =>
        expect(world.api.object(persistentVolumeClaims, { namespace: 'default', name: 'data' })?.status?.capacity).toEqual({
          storage: '3Gi',
        }),
      waiting,
    );
    expect(world.api.object(persistentVolumes, { name: volume.metadata?.name ?? '' })?.spec?.capacity).toEqual({ storage: '3Gi' });
  });

  it('fills a volume from another claim', async () => {
    const claim = await world.claim('data');
    await bind(claim, await volumeOf(claim));
    const copy = await world.claim('copy', { dataSource: { kind: 'PersistentVolumeClaim', name: 'data' } });
    await volumeOf(copy);
    expect(await content()).toHaveLength(2);
  });

  it('leaves claims with other kinds of sources to their populator', async () => {
    const source = { apiGroup: 'hello.example.com', kind: 'Hello', name: 'one' };
    await world.claim('theirs', { dataSource: source, dataSourceRef: source });
    await vi.waitFor(
      () => expect(world.events).toContain('Normal Provisioning Assuming an external populator will provision the volume'),
      waiting,
    );
    await volumeOf(await world.claim('ours'));
    expect(await content()).toHaveLength(1);
    expect(world.api.object(persistentVolumeClaims, { namespace: 'default', name: 'theirs' })?.status?.phase ?? 'Pending').toBe('Pending');
  });

  it('deletes volumes with their content after their claim', async () => {
    const claim = await world.claim('data');
    const volume = await volumeOf(claim);
    await bind(claim, volume);
    const name = { name: volume.metadata?.name ?? '' };
    expect(await content()).toHaveLength(1);
    await world.api.client().patch(persistentVolumes, name, 'merge', { status: { phase: 'Released' } }, { subresource: 'status' });
    await vi.waitFor(() => expect(world.api.object(persistentVolumes, name)).toBeUndefined(), waiting);
    expect(await content()).toEqual([]);
  });

  it('waits for a driver that is down', async () => {
    await world.stopDriver();
    const claim = await world.claim('data');
    await messages(/Warning ProvisioningFailed .*code = Unavailable/);
    await world.startDriver();
    await volumeOf(claim);
  });

  it('creates a hundred volumes at a time', async () => {
    const claims = await Promise.all(
      Array.from({ length: 100 }, (_, at) => world.claim(`data-${at}`, { resources: { requests: { storage: '1Mi' } } })),
    );
    await Promise.all(claims.map(volumeOf));
    expect(await content()).toHaveLength(100);
  });
});
