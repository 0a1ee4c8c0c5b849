import { objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { SidecarOptions } from '../sidecars/sidecar.ts';
import { groupSnapshots } from '../snapshot-api/group-kinds.ts';
import { groupFinalizers, groupKeyOf } from '../snapshot-api/group-names.ts';
import { snapshotContents, volumeSnapshots, type VolumeSnapshot } from '../snapshot-api/snapshot-kinds.ts';
import { finalizers, ignoreNotFound, notes, setFinalizers } from '../snapshot-api/snapshot-names.ts';
import type { SnapshotCaches } from './snapshot-caches.ts';

/** Removes the finalizers of deleted VolumeSnapshots, and of claims whose snapshots have been taken. */
export class SnapshotRelease {
  readonly #options: SidecarOptions;
  readonly #caches: SnapshotCaches;

  constructor(options: SidecarOptions, caches: SnapshotCaches) {
    this.#options = options;
    this.#caches = caches;
  }

  /** Removes a deleted VolumeSnapshot when its content is gone (deletionPolicy Delete) or at once (Retain), but not while a claim is filled from it. */
  async snapshot(snapshot: VolumeSnapshot): Promise<void> {
    const { client, driver, recorder } = this.#options;
    const { namespace = '', name = '', uid = '' } = snapshot.metadata ?? {};
    const groupKey = groupKeyOf(snapshot);
    const created = `snapcontent-${groupKey === undefined ? uid : name.slice('snapshot-'.length)}`;
    const contentName = snapshot.status?.boundVolumeSnapshotContentName ?? snapshot.spec.source.volumeSnapshotContentName ?? created;
    const content = await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound);
    if (content === undefined ? !this.#mayBeOurs(snapshot) : content.spec.driver !== driver.name) return;
    if (groupKey !== undefined && (await this.#isKept(snapshot, groupKey))) return;
    const filling = this.#caches.claims.list(namespace).find(({ spec, status }) => {
      const source = spec?.dataSource ?? spec?.dataSourceRef;
      return source?.kind === 'VolumeSnapshot' && source.name === name && status?.phase === 'Pending';
    });
    if (filling !== undefined) {
      recorder.event(snapshot, 'Warning', 'SnapshotDeletePending', 'Snapshot is being used to restore a PVC');
      return;
    }
    const isBound = content?.spec.volumeSnapshotRef.uid === uid;
    if (content !== undefined && isBound) {
      if (content.metadata?.annotations?.[notes.beingDeleted] !== 'yes')
        await client.patch(snapshotContents, { name: contentName }, 'merge', {
          metadata: { annotations: { [notes.beingDeleted]: 'yes' } },
        });
      if (content.spec.deletionPolicy === 'Delete') {
        if (content.metadata?.deletionTimestamp === undefined)
          await client.delete(snapshotContents, { name: contentName }).catch(ignoreNotFound);
        if ((await client.get(snapshotContents, { name: contentName }).catch(ignoreNotFound)) !== undefined) return; // its deletion adds the key again
      } else await setFinalizers(client, { resource: snapshotContents, object: content }, { remove: [finalizers.content] }).catch(conflict);
    }
    const remove = [finalizers.source, finalizers.bound, groupFinalizers.member];
    await setFinalizers(client, { resource: volumeSnapshots, object: snapshot }, { remove });
    await this.claims(namespace);
  }

  /** Returns true if the group of a deleted snapshot remains, which keeps its snapshots. */
  async #isKept(snapshot: VolumeSnapshot, groupKey: ObjectKey): Promise<boolean> {
    const { client, recorder } = this.#options;
    const { namespace = '', name } = splitKey(groupKey);
    const group = await client.get(groupSnapshots, { namespace, name }).catch(ignoreNotFound);
    if (group === undefined || group.metadata?.deletionTimestamp !== undefined) return false;
    recorder.event(
      snapshot,
      'Warning',
      'SnapshotDeletePending',
      `deletion of the individual volume snapshot ${objectKey(snapshot)} is not allowed as it belongs to group snapshot ${groupKey}. Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part of the group.`,
    );
    return true;
  }

  /** Returns true if the VolumeSnapshot may belong to this driver, according to its volume or, if the volume is unknown, its VolumeSnapshotClass. */
  #mayBeOurs(snapshot: VolumeSnapshot): boolean {
    const { namespace = '' } = snapshot.metadata ?? {};
    const claim = this.#caches.claims.get(`${namespace}/${snapshot.spec.source.persistentVolumeClaimName}`);
    const volume = this.#caches.volumes.get(claim?.spec?.volumeName ?? '');
    if (volume !== undefined) return volume.spec?.csi?.driver === this.#options.driver.name;
    const named = this.#caches.classes.get(snapshot.spec.volumeSnapshotClassName ?? '');
    return named === undefined || named.driver === this.#options.driver.name;
  }

  /** Removes the finalizer of the namespace's PersistentVolumeClaims of which no snapshot is being taken any more. */
  async claims(namespace: string): Promise<void> {
    const { client } = this.#options;
    const { claims, snapshots } = this.#caches;
    for (const claim of claims.list(namespace)) {
      if (claim.metadata?.finalizers?.includes(finalizers.claim) !== true) continue;
      const taking = await Promise.all(
        snapshots
          .list(namespace)
          .filter(({ spec }) => spec.source.persistentVolumeClaimName === claim.metadata?.name)
          // the cache may not show the latest write yet
          .map(({ metadata }) => client.get(volumeSnapshots, { namespace, name: metadata?.name ?? '' }).catch(ignoreNotFound)),
      );
      if (taking.some((each) => each !== undefined && each.metadata?.deletionTimestamp === undefined && each.status?.readyToUse !== true))
        continue;
      await setFinalizers(client, { resource: persistentVolumeClaims, object: claim }, { remove: [finalizers.claim] });
    }
  }
}

/** Ignores conflicts, because the event of the other client's write adds the key again. */
function conflict(error: unknown): undefined {
  if (isStatus(error, 'Conflict')) return undefined;
  throw error;
}
