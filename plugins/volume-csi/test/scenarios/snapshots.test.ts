import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { snapshotClasses, snapshotContents, volumeSnapshots, type DeletionPolicy } from '../../src/snapshot-api/snapshot-kinds.ts';
import { driverName, until, World } from '../support/csi-environment.ts';

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

  it('are taken of a claim, report their size, and fill another claim', async () => {
    await take();
    const { status, spec } = await ready();
    expect(status).toMatchObject({ restoreSize: '1Gi', boundVolumeSnapshotContentName: `snapcontent-${snapshot()?.metadata?.uid}` });
    expect(spec.volumeSnapshotClassName).toBe('plain');
    expect(contentOf()).toMatchObject({ spec: { driver: driverName, deletionPolicy: 'Delete', sourceVolumeMode: 'Filesystem' } });
    // nanoseconds exceed the precision of a double
    expect(typeof contentOf()?.status?.creationTime).toBe('bigint');
    expect(Date.parse(status?.creationTime ?? '') * 1e6).toBe(Number(contentOf()?.status?.creationTime));
    // the claim has a finalizer only while the snapshot is taken
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

  it('do not fill a smaller claim', async () => {
    await take();
    await ready();
    await world.claim('small', {
      dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'snap' },
      resources: { requests: { storage: '1Mi' } },
    });
    await until(() => world.events.find((line) => /ProvisioningFailed .*requested volume size 1048576 is less than the size/.test(line)));
  });

  it('are deleted with their content if the policy of the class is Delete', async () => {
    await take();
    await ready();
    expect(await stored()).toHaveLength(2);
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
    expect(contentOf()).toBeUndefined();
    expect(await stored()).toHaveLength(1);
  });

  it('leave their content if the policy is Retain, and can be bound to it again', async () => {
    policy('Retain');
    await take();
    await ready();
    const handle = contentOf()?.status?.snapshotHandle ?? '';
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
    expect(contentOf()).toBeDefined();
    expect(await stored()).toHaveLength(2);
    // as an administrator restores it
    await world.api.client().create(snapshotContents, {
      metadata: { name: 'brought', labels: { 'snapshot.storage.kubernetes.io/managed-by': 'here' } },
      spec: { driver: driverName, deletionPolicy: 'Delete', source: { snapshotHandle: handle }, volumeSnapshotRef: { ...name } },
    });
    await take({ volumeSnapshotContentName: 'brought' });
    expect((await ready()).status).toMatchObject({ boundVolumeSnapshotContentName: 'brought', restoreSize: '1Gi' });
    await world.volumeOf(await restore('copy'));
  });

  it('report why they cannot be taken', async () => {
    await world.api.client().create(volumeSnapshots, {
      metadata: name,
      spec: { source: { persistentVolumeClaimName: 'nobody' }, volumeSnapshotClassName: 'plain' },
    });
    await until(() => snapshot()?.status?.error?.message);
    expect(snapshot()?.status?.readyToUse).toBe(false);
    // a snapshot that was not taken is deleted at once
    await world.api.client().delete(volumeSnapshots, name);
    await gone();
  });

  it('wait for a driver that is down, and are taken once', async () => {
    await world.stopDriver();
    await take();
    await until(() => contentOf()?.status?.error?.message);
    await world.startDriver();
    await ready();
    expect(contentOf()?.status?.error).toBeUndefined();
    expect(await stored()).toHaveLength(2);
  });
});
