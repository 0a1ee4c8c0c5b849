import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';

export const snapshotGroup = 'snapshot.storage.k8s.io';

export type DeletionPolicy = 'Delete' | 'Retain';
export interface SnapshotError {
  readonly message?: string;
  /** The time in RFC 3339. */
  readonly time?: string;
}

/** A user's request to take a snapshot of a PersistentVolumeClaim, or to bind to an existing snapshot. */
export interface VolumeSnapshot extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly source: { readonly persistentVolumeClaimName?: string; readonly volumeSnapshotContentName?: string };
    readonly volumeSnapshotClassName?: string;
  };
  readonly status?: {
    readonly boundVolumeSnapshotContentName?: string;
    /** The creation time in RFC 3339. */
    readonly creationTime?: string;
    readonly readyToUse?: boolean;
    /** The minimum size of a volume that is restored from the snapshot, as a quantity. */
    readonly restoreSize?: string;
    readonly error?: SnapshotError;
    /** The VolumeGroupSnapshot that the snapshot belongs to. */
    readonly volumeGroupSnapshotName?: string;
  };
}

/** A snapshot in the driver. */
export interface VolumeSnapshotContent extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly deletionPolicy: DeletionPolicy;
    readonly driver: string;
    readonly source: { readonly volumeHandle?: string; readonly snapshotHandle?: string };
    readonly sourceVolumeMode?: string;
    readonly volumeSnapshotClassName?: string;
    readonly volumeSnapshotRef: {
      readonly kind?: string;
      readonly apiVersion?: string;
      readonly name?: string;
      readonly namespace?: string;
      readonly uid?: string;
    };
  };
  readonly status?: {
    readonly snapshotHandle?: string;
    readonly volumeGroupSnapshotHandle?: string;
    /** The creation time in nanoseconds since the epoch. */
    readonly creationTime?: number | bigint;
    readonly readyToUse?: boolean;
    /** The minimum size of a volume that is restored from the snapshot, in bytes. */
    readonly restoreSize?: number;
    readonly error?: SnapshotError;
  };
}

export interface VolumeSnapshotClass extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly driver: string;
  readonly deletionPolicy: DeletionPolicy;
  readonly parameters?: Readonly<Record<string, string>>;
}

export const volumeSnapshots = resource<VolumeSnapshot>(snapshotGroup, 'v1', 'volumesnapshots', 'VolumeSnapshot', true);
export const snapshotContents = resource<VolumeSnapshotContent>(
  snapshotGroup,
  'v1',
  'volumesnapshotcontents',
  'VolumeSnapshotContent',
  false,
);
export const snapshotClasses = resource<VolumeSnapshotClass>(snapshotGroup, 'v1', 'volumesnapshotclasses', 'VolumeSnapshotClass', false);
