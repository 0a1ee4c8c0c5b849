import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { csiNodes, customResourceDefinitions, leases, nodes, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { snapshotClasses, snapshotContents, volumeSnapshots } from '../../src/snapshot-api/snapshot-kinds.ts';
import { finalizers, notes } from '../../src/snapshot-api/snapshot-names.ts';
import { until, World, type WorldOptions } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName, type PlainDriverOptions } from '../support/plain-driver.ts';

describe('a driver without attachment, staging and expansion, whose snapshots become ready later', () => {
  let world: World;
  let driver: PlainDriver;
  afterEach(() => world[Symbol.asyncDispose]());

  const open = async (
    options: PlainDriverOptions = {},
    config: (socket: string) => object = () => ({}),
    more: WorldOptions = {},
    prepare: () => void = () => {},
  ) => {
    driver = new PlainDriver(options);
    const other = { name: plainDriverName, serve: (endpoint: string, directory: string) => driver.serve(endpoint, directory) };
    world = await World.open({ other, ...more });
    prepare();
    await world.plugin(config(join(world.directory, 'csi.sock')));
    world.api.seed(snapshotClasses, {
      metadata: { name: 'plain', annotations: { [notes.defaultClass]: 'true' } },
      driver: plainDriverName,
      deletionPolicy: 'Delete',
    });
  };
  const name = { namespace: 'default', name: 'snap' };
  const take = () =>
    world.api.client().create(volumeSnapshots, { metadata: name, spec: { source: { persistentVolumeClaimName: 'data' } } });
  const snapshot = () => world.api.object(volumeSnapshots, name);
  const contentOf = () => world.api.objects(snapshotContents)[0];
  const ready = () => until(() => (snapshot()?.status?.readyToUse === true ? snapshot() : undefined));
  const gone = () => until(() => (snapshot() === undefined ? true : undefined));
  const contentPath = (volume: PersistentVolume, file: string) =>
    join(world.directory, 'driver', 'volumes', volume.spec?.csi?.volumeHandle ?? '', file);
  const bound = async () => world.bind(await world.claim('data'));

  it('publishes volumes directly', async () => {
    await open();
    const volume = await bound();
    await writeFile(contentPath(volume, 'file'), 'content');
    const request = world.request('pod', { name: 'v', persistentVolumeClaim: { claimName: 'data' } }, volume);
    const plugin = await world.plugin();
    await plugin.mount(request);
    expect(driver.calls).toContain('NodePublishVolume');
    expect(driver.calls).not.toContain('NodeStageVolume');
    expect(driver.calls).not.toContain('ControllerPublishVolume');
    await plugin.unmount(request);
    expect(driver.calls.at(-1)).toBe('NodeUnpublishVolume');
  });

  it('reports its limit of volumes, and its topology', async () => {
    await open({ maxVolumesPerNode: 3, topology: { 'plain.csi.example.com/rack': 'r1' } });
    expect(world.api.object(csiNodes, { name: 'here' })?.spec.drivers).toEqual([
      { name: plainDriverName, nodeID: 'plain-node', topologyKeys: ['plain.csi.example.com/rack'], allocatable: { count: 3 } },
    ]);
    expect(world.api.object(nodes, { name: 'here' })?.metadata?.labels).toMatchObject({ 'plain.csi.example.com/rack': 'r1' });
    const volume = await world.volumeOf(await world.claim('data'));
    expect(volume.spec?.nodeAffinity?.required?.nodeSelectorTerms).toEqual([
      { matchExpressions: [{ key: 'plain.csi.example.com/rack', operator: 'In', values: ['r1'] }] },
    ]);
  });

  for (const listsSnapshots of [false, true])
    it(`takes one snapshot, which becomes ready later${listsSnapshots ? ' and is listed' : ''}`, async () => {
      await open({ callsUntilReady: 2, listsSnapshots });
      const volume = await bound();
      await writeFile(contentPath(volume, 'file'), 'before');
      await take();
      await until(() => snapshot()?.status?.boundVolumeSnapshotContentName);
      await until(() => driver.snapshotIds[0]);
      expect(snapshot()?.status).toMatchObject({ readyToUse: false });
      await writeFile(contentPath(volume, 'file'), 'after');
      expect((await ready()).status).toMatchObject({ restoreSize: '1Mi', creationTime: '2023-11-14T22:13:20Z' });
      expect(driver.snapshotIds).toEqual([`id-of-snapshot-${snapshot()?.metadata?.uid}`]);
      await until(() => (world.events.some((line) => line.includes('SnapshotReady')) ? true : undefined));
      expect(world.events.filter((line) => line.includes('SnapshotReady'))).toHaveLength(1);
      const copy = await world.volumeOf(
        await world.claim('copy', { dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'snap' } }),
      );
      expect(await readFile(contentPath(copy, 'file'), 'utf8')).toBe('before');
      await world.api.client().delete(volumeSnapshots, name);
      await gone();
      expect(driver.snapshotIds).toEqual([]);
    });

  it('causes the snapshot kinds to be created', async () => {
    await open({}, undefined, { servesSnapshots: false });
    const names = () => world.api.objects(customResourceDefinitions).map(({ metadata }) => metadata?.name ?? '');
    await until(() => (names().filter((each) => each.endsWith('.snapshot.storage.k8s.io')).length === 3 ? true : undefined));
  });

  describe('with sidecars of its own', () => {
    const external = (options: PlainDriverOptions = {}, prepare?: () => void) =>
      open(options, (socket) => ({ drivers: [{ socket, provision: false, csiDriver: {} }] }), {}, prepare);
    const existingVolume = async () => {
      const client = world.api.client();
      const claim = await world.claim('data');
      await client.create(persistentVolumes, {
        metadata: { name: `pvc-${claim.metadata?.uid}` },
        spec: {
          capacity: { storage: '1Gi' },
          accessModes: ['ReadWriteOnce'],
          csi: { driver: plainDriverName, volumeHandle: 'handle' },
        },
      });
      await world.bind(claim);
    };
    /** Reports a snapshot as external-snapshotter does. */
    const report = (readyToUse: boolean) =>
      world.api
        .client()
        .patch(
          snapshotContents,
          { name: contentOf()?.metadata?.name ?? '' },
          'merge',
          { status: { snapshotHandle: 'external', readyToUse, restoreSize: 2 ** 30, creationTime: 1_700_000_000_000_000_000 } },
          { subresource: 'status' },
        );

    for (const controller of [true, false])
      it(`has its snapshots bound by the cluster${controller ? '' : ', also if its controller runs elsewhere'}`, async () => {
        await external({ controller });
        await existingVolume();
        await take();
        const content = await until(() => contentOf());
        expect(content.spec).toMatchObject({
          driver: plainDriverName,
          source: { volumeHandle: 'handle' },
          volumeSnapshotClassName: 'plain',
        });
        await report(false);
        await until(() => (snapshot()?.status?.readyToUse === false ? true : undefined));
        await report(true);
        expect((await ready()).status).toMatchObject({ restoreSize: '1Gi' });
        expect(driver.calls).not.toContain('CreateSnapshot');
        // deletion waits for the sidecar, which removes its finalizer after the snapshot in the storage
        await world.api.client().delete(volumeSnapshots, name);
        await until(() => (contentOf()?.metadata?.deletionTimestamp === undefined ? undefined : true));
        expect(contentOf()?.metadata).toMatchObject({ annotations: { [notes.beingDeleted]: 'yes' }, finalizers: [finalizers.content] });
        expect(snapshot()).toBeDefined();
        await world.api
          .client()
          .patch(snapshotContents, { name: contentOf()?.metadata?.name ?? '' }, 'merge', { metadata: { finalizers: null } });
        await gone();
        expect(driver.calls).not.toContain('DeleteSnapshot');
      });

    it('is left to the snapshot-controller that holds its lease', async () => {
      const lease = { namespace: 'kube-system', name: 'snapshot-controller-leader' };
      await external({}, () => world.api.seed(leases, { metadata: lease, spec: { holderIdentity: 'other', leaseDurationSeconds: 3600 } }));
      await existingVolume();
      await take();
      const other = { namespace: 'default', name: 'other' };
      await world.api.client().create(volumeSnapshots, { metadata: other, spec: { source: { persistentVolumeClaimName: 'data' } } });
      expect(contentOf()).toBeUndefined();
      await world.api.client().delete(leases, lease);
      await until(() => (world.api.objects(snapshotContents).length === 2 ? true : undefined));
    });
  });
});
