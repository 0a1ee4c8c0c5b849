import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent } from '../snapshot-api/group-kinds.ts';
import type { VolumeSnapshot } from '../snapshot-api/snapshot-kinds.ts';

/** The informers of GroupSync and GroupContentSync. */
export interface GroupCaches {
  readonly groups: Informer<VolumeGroupSnapshot>;
  readonly contents: Informer<VolumeGroupSnapshotContent>;
  readonly classes: Informer<VolumeGroupSnapshotClass>;
  readonly snapshots: Informer<VolumeSnapshot>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
}
