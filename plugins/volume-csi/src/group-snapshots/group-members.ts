import { createHash } from 'node:crypto';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import {
  groupSnapshotGroup,
  type VolumeGroupSnapshot,
  type VolumeGroupSnapshotContent,
  type VolumeSnapshotInfo,
} from '../snapshot-api/group-kinds.ts';
import { groupFinalizers, groupNotes } from '../snapshot-api/group-names.ts';
import { snapshotContents, volumeSnapshots, type VolumeSnapshot, type VolumeSnapshotContent } from '../snapshot-api/snapshot-kinds.ts';
import { finalizers, notes } from '../snapshot-api/snapshot-names.ts';

/** What the snapshots of a group are created from. */
export interface GroupMembersOptions {
  readonly client: Client;
  readonly group: VolumeGroupSnapshot;
  readonly content: VolumeGroupSnapshotContent;
  /** Returns the PersistentVolume of a volume of the driver. */
  volumeOf(volumeHandle: string): PersistentVolume | undefined;
}

/** Creates the VolumeSnapshot and the VolumeSnapshotContent of each snapshot of a group, and keeps their statuses up to date. */
export async function writeMembers(options: GroupMembersOptions): Promise<void> {
  const { volumeSnapshotInfoList = [], volumeGroupSnapshotHandle } = options.content.status ?? {};
  // the driver has not taken the group yet
  if (volumeGroupSnapshotHandle === undefined) return;
  for (const info of volumeSnapshotInfoList) await writeMember(info, volumeGroupSnapshotHandle, options);
}

async function writeMember(info: VolumeSnapshotInfo, groupHandle: string, options: GroupMembersOptions): Promise<void> {
  const { client, group } = options;
  const { namespace = '', name: groupName = '', uid = '' } = group.metadata ?? {};
  const hash = createHash('sha256').update(`${uid}${info.volumeHandle}`).digest('hex');
  const [name, contentName] = [`snapshot-${hash}`, `snapcontent-${hash}`];
  const content = await createOrGet(client, snapshotContents, contentOf(info, groupHandle, { ...options, name, contentName }));
  const snapshot = await createOrGet(client, volumeSnapshots, snapshotOf(info, { ...options, name }));
  if (content.spec.volumeSnapshotRef.uid !== snapshot.metadata?.uid)
    await client.patch(snapshotContents, { name: contentName }, 'merge', { spec: { volumeSnapshotRef: { uid: snapshot.metadata?.uid } } });
  const { snapshotHandle, creationTime, restoreSize, readyToUse } = info;
  if (content.status?.snapshotHandle !== snapshotHandle || content.status?.readyToUse !== readyToUse) {
    const known = { ...(creationTime !== undefined && { creationTime }), ...(restoreSize !== undefined && { restoreSize }) };
    const status = { snapshotHandle, readyToUse, volumeGroupSnapshotHandle: groupHandle, ...known };
    await client.patch(snapshotContents, { name: contentName }, 'merge', { status }, { subresource: 'status' });
  }
  // the VolumeSnapshot is bound last: from then on its status follows its content
  if (snapshot.status?.boundVolumeSnapshotContentName === undefined) {
    const status = { boundVolumeSnapshotContentName: contentName, volumeGroupSnapshotName: groupName };
    await client.patch(volumeSnapshots, { namespace, name }, 'merge', { status }, { subresource: 'status' });
  }
}

async function createOrGet<T extends KubeObject>(client: Client, resource: Resource<T>, object: T): Promise<T> {
  const { namespace, name = '' } = object.metadata ?? {};
  return client.create(resource, object).catch((error: unknown) => {
    if (!isStatus(error, 'AlreadyExists')) throw error;
    return client.get(resource, { name, ...(namespace !== undefined && { namespace }) });
  });
}

function contentOf(
  { volumeHandle = '' }: VolumeSnapshotInfo,
  groupHandle: string,
  { content, group, name, contentName, volumeOf }: GroupMembersOptions & { readonly name: string; readonly contentName: string },
): VolumeSnapshotContent {
  const { annotations = {}, labels } = content.metadata ?? {};
  const secret = [annotations[groupNotes.deletionSecretName], annotations[groupNotes.deletionSecretNamespace]];
  return {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshotContent',
    metadata: {
      name: contentName,
      finalizers: [finalizers.content],
      ...(labels?.[notes.managedBy] !== undefined && { labels: { [notes.managedBy]: labels[notes.managedBy] ?? '' } }),
      annotations: {
        [groupNotes.groupHandle]: groupHandle,
        ...(secret[0] !== undefined && { [notes.deletionSecretName]: secret[0], [notes.deletionSecretNamespace]: secret[1] ?? '' }),
      },
    },
    spec: {
      deletionPolicy: content.spec.deletionPolicy,
      driver: content.spec.driver,
      source: { volumeHandle },
      sourceVolumeMode: volumeOf(volumeHandle)?.spec?.volumeMode ?? 'Filesystem',
      volumeSnapshotRef: {
        apiVersion: 'snapshot.storage.k8s.io/v1',
        kind: 'VolumeSnapshot',
        name,
        namespace: group.metadata?.namespace ?? '',
      },
    },
  };
}

function snapshotOf(
  { volumeHandle = '' }: VolumeSnapshotInfo,
  { group, name, volumeOf }: GroupMembersOptions & { readonly name: string },
): VolumeSnapshot {
  const { namespace = '', name: groupName = '', uid = '' } = group.metadata ?? {};
  return {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: {
      namespace,
      name,
      finalizers: [groupFinalizers.member, finalizers.bound],
      ownerReferences: [{ apiVersion: `${groupSnapshotGroup}/v1`, kind: 'VolumeGroupSnapshot', name: groupName, uid }],
    },
    spec: { source: { persistentVolumeClaimName: volumeOf(volumeHandle)?.spec?.claimRef?.name ?? '' } },
  };
}
