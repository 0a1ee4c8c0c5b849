import { objectKey } from '@oarlock/api/object';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import { groupContents, groupSnapshots, type VolumeGroupSnapshot } from '../snapshot-api/group-kinds.ts';
import { groupFinalizers, groupKeyOf, groupNotes } from '../snapshot-api/group-names.ts';
import { volumeSnapshots, type VolumeSnapshot } from '../snapshot-api/snapshot-kinds.ts';
import { ignoreNotFound, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import type { GroupCaches } from './group-caches.ts';

/**
 * Removes a deleted VolumeGroupSnapshot with its VolumeSnapshots, when its content is gone (deletionPolicy Delete) or at once (Retain), but not while
 * a claim is filled from one of its snapshots.
 */
export async function releaseGroup(
  group: VolumeGroupSnapshot,
  { client, driver, recorder }: SidecarOptions,
  caches: GroupCaches,
): Promise<void> {
  if (group.metadata?.finalizers?.includes(groupFinalizers.bound) !== true) return;
  const { namespace = '', uid = '' } = group.metadata;
  const name =
    group.status?.boundVolumeGroupSnapshotContentName ?? group.spec.source.volumeGroupSnapshotContentName ?? `groupsnapcontent-${uid}`;
  const content = await client.get(groupContents, { name }).catch(ignoreNotFound);
  if (content !== undefined && content.spec.driver !== driver.name) return;
  const members = caches.snapshots.list(namespace).filter((each) => groupKeyOf(each) === objectKey(group));
  const used = members.find((each) => isSource(each, caches.claims.list(namespace)));
  if (used !== undefined) {
    const message = `Snapshot ${objectKey(used)} belonging to VolumeGroupSnapshot ${objectKey(group)} is being used to restore a PVC`;
    recorder.event(group, 'Warning', 'SnapshotDeletePending', message);
    return;
  }
  let remains = false;
  if (content !== undefined && content.spec.volumeGroupSnapshotRef.uid === uid) {
    if (content.metadata?.annotations?.[groupNotes.beingDeleted] !== 'yes')
      await client.patch(groupContents, { name }, 'merge', { metadata: { annotations: { [groupNotes.beingDeleted]: 'yes' } } });
    if (content.spec.deletionPolicy === 'Delete') {
      if (content.metadata?.deletionTimestamp === undefined) await client.delete(groupContents, { name }).catch(ignoreNotFound);
      remains = (await client.get(groupContents, { name }).catch(ignoreNotFound)) !== undefined;
    }
  }
  for (const member of members) await releaseMember(client, { namespace, name: member.metadata?.name ?? '' });
  // the deletion of the content adds the key again
  if (!remains) await setFinalizers(client, { resource: groupSnapshots, object: group }, { remove: [groupFinalizers.bound] });
}

/** Deletes a VolumeSnapshot of the group, and lets the snapshot-controller remove it: a user may have deleted it before, which waits for the group. */
async function releaseMember(client: Client, name: { readonly namespace: string; readonly name: string }): Promise<void> {
  await client.delete(volumeSnapshots, name).catch(ignoreNotFound);
  const object = await client.get(volumeSnapshots, name).catch(ignoreNotFound);
  if (object !== undefined) await setFinalizers(client, { resource: volumeSnapshots, object }, { remove: [groupFinalizers.member] });
}

/** Returns true if a claim waits for its volume, which is filled from the snapshot. */
const isSource = ({ metadata }: VolumeSnapshot, claims: readonly PersistentVolumeClaim[]): boolean =>
  claims.some(({ spec, status }) => {
    const source = spec?.dataSource ?? spec?.dataSourceRef;
    return source?.kind === 'VolumeSnapshot' && source.name === metadata?.name && (status?.phase ?? 'Pending') === 'Pending';
  });
