import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { persistentVolumeClaims, persistentVolumes, secrets } from '@oarlock/api/resources';
import { afterEach, describe, expect, it } from 'vitest';
import { groupClasses, groupContents, groupSnapshots, type VolumeGroupSnapshotClass } from '../../src/snapshot-api/group-kinds.ts';
import { groupFinalizers, groupNotes } from '../../src/snapshot-api/group-names.ts';
import { snapshotContents, volumeSnapshots } from '../../src/snapshot-api/snapshot-kinds.ts';
import { until, World } from '../support/csi-environment.ts';
import { PlainDriver, plainDriverName, type PlainDriverOptions } from '../support/plain-driver.ts';

describe('VolumeGroupSnapshots', () => {
  let world: World;
  let driver: PlainDriver;
  afterEach(() => world[Symbol.asyncDispose]());

  const open = async (options: PlainDriverOptions = {}, { provision = true, more = {} as Partial<VolumeGroupSnapshotClass> } = {}) => {
    driver = new PlainDriver({ groups: true, ...options });
    world = await World.open({
      other: { name: plainDriverName, serve: (endpoint, directory) => driver.serve(endpoint, directory) },
    });
    const config = { socket: join(world.directory, 'csi.sock'), provision, csiDriver: {}, storageClass: { name: 'standard' } };
    await world.plugin({ drivers: [config] });
    world.api.seed(groupClasses, {
      metadata: { name: 'plain', annotations: { [groupNotes.defaultClass]: 'true' } },
      driver: plainDriverName,
      deletionPolicy: 'Delete',
      ...more,
    });
  };
  const client = () => world.api.client();
  const name = { namespace: 'default', name: 'both' };
  const take = (spec: object = {}) =>
    client().create(groupSnapshots, { metadata: name, spec: { source: { selector: { matchLabels: { app: 'db' } } }, ...spec } });
  const group = () => world.api.object(groupSnapshots, name);
  const content = () => world.api.objects(groupContents)[0];
  const members = () => world.api.objects(volumeSnapshots);
  const memberContents = () => world.api.objects(snapshotContents);
  const ready = () => until(() => (group()?.status?.readyToUse === true ? group() : undefined));
  const gone = () => until(() => (group() === undefined ? true : undefined));
  const filePath = (volume: string) => join(world.directory, 'driver', 'volumes', volume, 'file');
  const label = (claim: string) =>
    client().patch(persistentVolumeClaims, { namespace: 'default', name: claim }, 'merge', { metadata: { labels: { app: 'db' } } });
  const volumes = async () => {
    for (const claim of ['data', 'log', 'other']) {
      const volume = await world.bind(await world.claim(claim));
      await writeFile(filePath(volume.spec?.csi?.volumeHandle ?? ''), `${claim} before`);
      if (claim !== 'other') await label(claim);
    }
  };
  const requestOf = (method: string) => driver.requests.find((each) => each.method === method)?.request;
  const event = (text: string) => until(() => world.events.find((line) => line.includes(text)));

  it('are taken of all claims that the selector matches, with a VolumeSnapshot for each', async () => {
    await open({ callsUntilReady: 1 });
    await volumes();
    await take();
    expect((await ready()).status).toMatchObject({
      boundVolumeGroupSnapshotContentName: `groupsnapcontent-${group()?.metadata?.uid}`,
      creationTime: '2023-11-14T22:13:20Z',
    });
    expect(group()?.spec.volumeGroupSnapshotClassName).toBe('plain');
    expect(content()).toMatchObject({
      metadata: { finalizers: [groupFinalizers.content] },
      spec: { driver: plainDriverName, deletionPolicy: 'Delete', volumeGroupSnapshotRef: { ...name, uid: group()?.metadata?.uid } },
      status: { volumeGroupSnapshotHandle: `groupsnapshot-${group()?.metadata?.uid}` },
    });
    expect(driver.calls.filter((each) => each === 'CreateVolumeGroupSnapshot')).toHaveLength(1);
    await until(() => (members().every(({ status }) => status?.readyToUse === true) ? true : undefined));
    expect(members().map(({ spec }) => spec.source.persistentVolumeClaimName)).toEqual(expect.arrayContaining(['data', 'log']));
    expect(members()).toHaveLength(2);
    for (const { metadata, status } of members()) {
      expect(metadata?.ownerReferences).toMatchObject([{ kind: 'VolumeGroupSnapshot', name: 'both', uid: group()?.metadata?.uid }]);
      expect(status).toMatchObject({ volumeGroupSnapshotName: 'both', restoreSize: '1Mi' });
    }
    expect(
      memberContents()
        .map(({ spec }) => spec.volumeSnapshotRef.uid)
        .toSorted(),
    ).toEqual(
      members()
        .map(({ metadata }) => metadata?.uid)
        .toSorted(),
    );
    expect(driver.calls).not.toContain('CreateSnapshot');
    await event(`Normal CreatingGroupSnapshot Waiting for a group snapshot default/both to be created by the CSI driver.`);
    await event('Normal GroupSnapshotCreated GroupSnapshot default/both was successfully created by the CSI driver.');
    await event('Normal GroupSnapshotReady GroupSnapshot default/both is ready to use.');
  });

  it('fill claims from their snapshots, and are deleted with them', async () => {
    await open();
    await volumes();
    await take();
    await ready();
    const snapshot = await until(() =>
      members().find(({ spec, status }) => spec.source.persistentVolumeClaimName === 'log' && status?.readyToUse === true),
    );
    const own = { namespace: 'default', name: snapshot.metadata?.name ?? '' };
    const source = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: own.name };
    const copy = await world.bind(await world.claim('copy', { dataSource: source }));
    expect(await readFile(filePath(copy.spec?.csi?.volumeHandle ?? ''), 'utf8')).toBe('log before');
    await client().delete(volumeSnapshots, own);
    await event(
      `Warning SnapshotDeletePending deletion of the individual volume snapshot default/${own.name} is not allowed as it belongs to group snapshot default/both.`,
    );
    expect(members()).toHaveLength(2);
    await client().delete(groupSnapshots, name);
    await gone();
    await until(() => (members().length + memberContents().length === 0 && content() === undefined ? true : undefined));
    expect(requestOf('DeleteVolumeGroupSnapshot')).toMatchObject({ snapshotIds: { length: 2 } });
    expect(driver.snapshotIds).toEqual([]);
    expect(driver.calls).not.toContain('DeleteSnapshot');
  });

  it('pass the parameters and the secret of their class', async () => {
    const prefix = 'csi.storage.k8s.io/group-snapshotter-secret';
    const parameters = { [`${prefix}-name`]: '${volumegroupsnapshot.name}-key', [`${prefix}-namespace`]: 'default', speed: 'high' };
    await open({}, { more: { parameters } });
    world.api.seed(secrets, { metadata: { namespace: 'default', name: 'both-key' }, data: { key: Buffer.from('x').toString('base64') } });
    await volumes();
    await take();
    await ready();
    expect(requestOf('CreateVolumeGroupSnapshot')).toMatchObject({ secrets: { key: 'x' }, parameters: { speed: 'high' } });
    await client().delete(groupSnapshots, name);
    await gone();
    expect(requestOf('DeleteVolumeGroupSnapshot')).toMatchObject({ secrets: { key: 'x' } });
  });

  it('leave their content if the policy is Retain, and can be bound to it again', async () => {
    await open({}, { more: { deletionPolicy: 'Retain' } });
    await volumes();
    await take();
    await ready();
    await until(() => (members().length === 2 ? true : undefined));
    await client().delete(groupSnapshots, name);
    await gone();
    const { volumeGroupSnapshotHandle = '', volumeSnapshotInfoList = [] } = content()?.status ?? {};
    expect(driver.snapshotIds).toHaveLength(2);
    await client().delete(groupContents, { name: content()?.metadata?.name ?? '' });
    await until(() => (content() === undefined ? true : undefined));
    expect(driver.calls).not.toContain('DeleteVolumeGroupSnapshot');
    // as an administrator restores it
    const groupSnapshotHandles = {
      volumeGroupSnapshotHandle,
      volumeSnapshotHandles: volumeSnapshotInfoList.map(({ snapshotHandle }) => snapshotHandle ?? ''),
    };
    await client().create(groupContents, {
      metadata: { name: 'brought' },
      spec: { driver: plainDriverName, deletionPolicy: 'Delete', source: { groupSnapshotHandles }, volumeGroupSnapshotRef: name },
    });
    await take({ source: { volumeGroupSnapshotContentName: 'brought' } });
    expect((await ready()).status).toMatchObject({ boundVolumeGroupSnapshotContentName: 'brought' });
    await client().delete(groupSnapshots, name);
    await gone();
    expect(requestOf('DeleteVolumeGroupSnapshot')).toMatchObject({ groupSnapshotId: volumeGroupSnapshotHandle });
  });

  it.each([
    [
      'no claims',
      {},
      async () => {},
      'GroupSnapshotContentCreationFailed failed to create group snapshot content with error failed to get input parameters to create group snapshot both: "label selector &LabelSelector{MatchLabels:map[string]string{app: db,},MatchExpressions:[]LabelSelectorRequirement{},} for group snapshot not applied to any PVC"',
    ],
    [
      'a claim that is not bound',
      {},
      async () => {
        await world.claim('unbound', {}, null);
        await label('unbound');
      },
      'GroupSnapshotContentCreationFailed failed to create group snapshot content with error failed to get input parameters to create group snapshot both: "the PVC unbound is not yet bound to a PV, will not attempt to take a group snapshot"',
    ],
    [
      'a class that does not exist',
      { volumeGroupSnapshotClassName: 'none' },
      async () => volumes(),
      'GroupSnapshotContentCreationFailed failed to create group snapshot content with error failed to get input parameters to create group snapshot both: "volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \\"none\\" not found"',
    ],
    [
      'a volume of another driver',
      { volumeGroupSnapshotClassName: 'plain' },
      async () => {
        await volumes();
        const spec = { accessModes: ['ReadWriteOnce'], volumeName: 'foreign' };
        const status = { phase: 'Bound' };
        world.api.seed(persistentVolumeClaims, { metadata: { namespace: 'default', name: 'z', labels: { app: 'db' } }, spec, status });
        world.api.seed(persistentVolumes, { metadata: { name: 'foreign' }, spec: { csi: { driver: 'other', volumeHandle: 'h' } } });
      },
      `GroupSnapshotContentCreationFailed failed to create group snapshot content with error Volume CSI driver (other) mismatch with VolumeGroupSnapshotClass (${plainDriverName}) default/both: foreign`,
    ],
  ])('report %s', async (_case, spec, prepare, message) => {
    await open();
    await prepare();
    await take(spec);
    await event(`Warning ${message}`);
    expect(group()?.status).toMatchObject({ readyToUse: false, error: { message: message.slice(message.indexOf(' ') + 1) } });
    await client().delete(groupSnapshots, name);
    await gone();
  });

  it('report that the class is not set and there is no default', async () => {
    await open({}, { more: { metadata: { name: 'plain' } } });
    await volumes();
    await take();
    await event(
      'Warning SetDefaultGroupSnapshotClassFailed Failed to set default group snapshot class with error cannot find default group',
    );
  });

  it('report an invalid answer of the driver, and are taken when it is valid', async () => {
    let valid = false;
    await open({
      answers: {
        CreateVolumeGroupSnapshot: ({ groupSnapshot }) => ({
          groupSnapshot: { ...groupSnapshot, snapshots: valid ? groupSnapshot.snapshots : groupSnapshot.snapshots.slice(1) },
        }),
      },
    });
    await volumes();
    await take();
    await event('Warning GroupSnapshotCreationFailed Failed to create group snapshot: failed to take group snapshot of the volumes [');
    await until(() => (group()?.status?.error?.message?.includes('is requested and missing') === true ? true : undefined));
    valid = true;
    expect((await ready()).status?.error).toBeUndefined();
  });

  it('are bound by the cluster if the driver has sidecars of its own', async () => {
    await open({}, { provision: false });
    const spec = { accessModes: ['ReadWriteOnce'], volumeName: 'pv' };
    const metadata = { namespace: 'default', name: 'data', labels: { app: 'db' } };
    world.api.seed(persistentVolumeClaims, { metadata, spec, status: { phase: 'Bound' } });
    world.api.seed(persistentVolumes, {
      metadata: { name: 'pv' },
      spec: { csi: { driver: plainDriverName, volumeHandle: 'handle' }, claimRef: { namespace: 'default', name: 'data' } },
    });
    await take();
    const { metadata: created } = await until(() => content());
    // as external-snapshotter reports it
    const status = {
      volumeGroupSnapshotHandle: 'external',
      readyToUse: true,
      creationTime: '2026-01-01T00:00:00Z',
      volumeSnapshotInfoList: [{ volumeHandle: 'handle', snapshotHandle: 'one', readyToUse: true, restoreSize: 2 ** 30 }],
    };
    await client().patch(groupContents, { name: created?.name ?? '' }, 'merge', { status }, { subresource: 'status' });
    await ready();
    await until(() => (members()[0]?.status?.readyToUse === true ? true : undefined));
    expect(memberContents()[0]?.status).toMatchObject({ snapshotHandle: 'one', volumeGroupSnapshotHandle: 'external' });
    expect(driver.calls).not.toContain('CreateVolumeGroupSnapshot');
  });
});
