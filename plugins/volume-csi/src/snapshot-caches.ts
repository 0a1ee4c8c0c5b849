import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer } from '@oarlock/spi/client';
import type { VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent } from './snapshot-kinds.ts';

/** What both halves read. */
export interface SnapshotCaches {
  readonly snapshots: Informer<VolumeSnapshot>;
  readonly contents: Informer<VolumeSnapshotContent>;
  readonly classes: Informer<VolumeSnapshotClass>;
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly volumes: Informer<PersistentVolume>;
}
