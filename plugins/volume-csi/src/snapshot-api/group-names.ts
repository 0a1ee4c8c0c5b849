import type { ObjectKey } from '@oarlock/api/object';
import { groupSnapshotGroup } from './group-kinds.ts';
import type { VolumeSnapshot, VolumeSnapshotContent } from './snapshot-kinds.ts';

const group = 'groupsnapshot.storage.kubernetes.io';

/** The annotations of groups of snapshots. */
export const groupNotes = {
  defaultClass: `${group}/is-default-class`,
  beingCreated: `${group}/volumegroupsnapshot-being-created`,
  beingDeleted: `${group}/volumegroupsnapshot-being-deleted`,
  deletionSecretName: `${group}/deletion-secret-name`,
  deletionSecretNamespace: `${group}/deletion-secret-namespace`,
  /** On the VolumeSnapshotContent of a snapshot that belongs to a group: the handle of the group. */
  groupHandle: `${group}/volumeGroupSnapshotHandle`,
};
export const groupFinalizers = {
  bound: `${group}/volumegroupsnapshot-bound-protection`,
  content: `${group}/volumegroupsnapshotcontent-bound-protection`,
  /** On the VolumeSnapshots of a group. */
  member: 'snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection',
};

/** Returns the key of the VolumeGroupSnapshot that a VolumeSnapshot belongs to; undefined if it belongs to none. */
export function groupKeyOf({ metadata }: Pick<VolumeSnapshot, 'metadata'>): ObjectKey | undefined {
  const owner = metadata?.ownerReferences?.find(
    ({ kind, apiVersion }) => kind === 'VolumeGroupSnapshot' && apiVersion.startsWith(`${groupSnapshotGroup}/`),
  );
  return owner === undefined ? undefined : `${metadata?.namespace}/${owner.name}`;
}

/** Returns true if the snapshot of a VolumeSnapshotContent was taken with a group, and is deleted with it. */
export const isInGroup = ({ metadata, status }: VolumeSnapshotContent): boolean =>
  metadata?.annotations?.[groupNotes.groupHandle] !== undefined || status?.volumeGroupSnapshotHandle !== undefined;
