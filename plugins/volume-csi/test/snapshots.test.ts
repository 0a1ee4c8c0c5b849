import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { snapshotClasses, snapshotContents, volumeSnapshots, type DeletionPolicy } from '../src/snapshot-kinds.ts';
import { driverName, until, World } from './world.ts';

describe('snapshots', () => {
  let world: World;
  beforeEach(async () => {
    world = await World.open();
    await world.plugin();
    policy('Delete');
    const volume = await world.bind(await world.claim('data'));
    await writeFile(join(world.directory, 'driver', 'content', volume.spec?.csi?.volumeHandle ?? '', 'file'), 'before');
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const policy = (deletionPolicy: DeletionPolicy) =>
    void world.api.seed(snapshotClasses, {
      metadata: { name: 'plain', annotations: { 'snapshot.storage.kubernetes.io/is-default-class': 'true' } },
      driver: driverName,
      deletionPolicy,
    });
  const name = { namespace: 'default', name: 'snap' };
  const take = (source: object = { persistentVolumeClaimName: 'data' }) =>
    world.api.client().create(volumeSnapshots, { metadata: name, spec: { source } });
  const snapshot = () => world.api.object(volumeSnapshots, name);
  const ready = () => until(() => (snapshot()?.status?.readyToUse === true ? snapshot() : undefined));
  const contentOf = () => world.api.objects(snapshotContents)[0];
  const restore = (claim: string) =>
    world.claim(claim, { dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'snap' } });
  const stored = () => readdir(join(world.directory, 'driver', 'state'));
  const gone = () => until(() => (snapshot() === undefined ? true : undefined));

  it('are taken of a claim, say how large they are, and fill another', async () => {
    await take();
    const { status, spec } = await ready();
    expect(status).toMatchObject({ restoreSize: '1Gi', boundVolumeSnapshotContentName: `snapcontent-${snapshot()?.metadata?.uid}` });
    expect(spec.volumeSnapshotClassName).toBe('plain');
    expect(contentOf()).toMatchObject({ spec: { driver: driverName, deletionPolicy: 'Delete', sourceVolumeMode: 'Filesystem' } });
    // nanoseconds, which a double does not hold
    expect(typeof contentOf()?.status?.creationTime).toBe('bigint');
    expect(Date.parse(status?.creationTime ?? '') * 1e6).toBe(Number(contentOf()?.status?.creationTime));
    // a claim is held while a snapshot of it is taken, and no longer
    await until(() =>
      world.api
        .object(persistentVolumeClaims, { namespace: 'default', name: 'data' })
        ?.metadata?.finalizers?.includes('snapshot.storage.kubernetes.io/pvc-as-source-protection')
        ? undefined
        : true,
    );
    const copy = await world.volumeOf(await restore('copy'));
    expect(await readFile(join(world.directory, 'driver', 'content', copy.spec?.csi?.volumeHandle ?? '', 'file'), 'utf8')).toBe('before');
  });

  it('do not fill a claim that is smaller', async () => {
    await take();
    await ready();
    await world.claim('small', {
      dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'snap' },
      resources: { requests: { storage: '1Mi' } },
    });
    await until(() => world.events.find((line) => /ProvisioningFailed .*requested volume size 1048576 is less than the size/.test(line)));
  });

  it('go with their content where their class says so', async () => {
    await take();
    await ready();
    expect(await stored()).toHaveLength(2);
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
    expect(contentOf()).toBeUndefined();
    expect(await stored()).toHaveLength(1);
  });

  it('leave their content where their class says so, and are bound to it again', async () => {
    policy('Retain');
    await take();
    await ready();
    const handle = contentOf()?.status?.snapshotHandle ?? '';
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
    expect(contentOf()).toBeDefined();
    expect(await stored()).toHaveLength(2);
    // what an administrator does to have it back
    await world.api.client().create(snapshotContents, {
      metadata: { name: 'brought' },
      spec: { driver: driverName, deletionPolicy: 'Delete', source: { snapshotHandle: handle }, volumeSnapshotRef: { ...name } },
    });
    await take({ volumeSnapshotContentName: 'brought' });
    expect((await ready()).status).toMatchObject({ boundVolumeSnapshotContentName: 'brought', restoreSize: '1Gi' });
    await world.volumeOf(await restore('copy'));
  });

  it('say why they cannot be taken', async () => {
    await world.api.client().create(volumeSnapshots, {
      metadata: name,
      spec: { source: { persistentVolumeClaimName: 'nobody' }, volumeSnapshotClassName: 'plain' },
    });
    await until(() => snapshot()?.status?.error?.message);
    expect(snapshot()?.status?.readyToUse).toBe(false);
    // one that could not be taken goes at once
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
  });

  it('wait for a driver that is away, and are taken once', async () => {
    await world.stopDriver();
    await take();
    await until(() => contentOf()?.status?.error?.message);
    await world.startDriver();
    await ready();
    expect(contentOf()?.status?.error).toBeUndefined();
    expect(await stored()).toHaveLength(2);
  });
});
