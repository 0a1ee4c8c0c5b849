import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent } from '../snapshot-api/snapshot-kinds.ts';

/** The informers of SnapshotSync and ContentSync. */
export interface SnapshotCaches {
  readonly snapshots: Informer<VolumeSnapshot>;
  readonly contents: Informer<VolumeSnapshotContent>;
  readonly classes: Informer<VolumeSnapshotClass>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
}
