import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import type { DeletionPolicy, SnapshotError } from './snapshot-kinds.ts';

export const groupSnapshotGroup = 'groupsnapshot.storage.k8s.io';

/** A user's request to take snapshots of several PersistentVolumeClaims at the same time, or to bind to an existing group of snapshots. */
export interface VolumeGroupSnapshot extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly source: { readonly selector?: LabelSelector; readonly volumeGroupSnapshotContentName?: string };
    readonly volumeGroupSnapshotClassName?: string;
  };
  readonly status?: {
    readonly boundVolumeGroupSnapshotContentName?: string;
    /** The creation time in RFC 3339. */
    readonly creationTime?: string;
    readonly readyToUse?: boolean;
    readonly error?: SnapshotError;
  };
}

/** One snapshot of a group as the driver reports it. */
export interface VolumeSnapshotInfo {
  readonly volumeHandle?: string;
  readonly snapshotHandle?: string;
  /** The creation time in nanoseconds since the epoch. */
  readonly creationTime?: number | bigint;
  readonly readyToUse?: boolean;
  /** The minimum size of a volume that is restored from the snapshot, in bytes. */
  readonly restoreSize?: number;
}

/** A group of snapshots in the driver. */
export interface VolumeGroupSnapshotContent extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly deletionPolicy: DeletionPolicy;
    readonly driver: string;
    readonly source: {
      readonly volumeHandles?: readonly string[];
      readonly groupSnapshotHandles?: { readonly volumeGroupSnapshotHandle: string; readonly volumeSnapshotHandles: readonly string[] };
    };
    readonly volumeGroupSnapshotClassName?: string;
    readonly volumeGroupSnapshotRef: {
      readonly kind?: string;
      readonly apiVersion?: string;
      readonly name?: string;
      readonly namespace?: string;
      readonly uid?: string;
    };
  };
  readonly status?: {
    readonly volumeGroupSnapshotHandle?: string;
    /** The creation time in RFC 3339. */
    readonly creationTime?: string;
    readonly readyToUse?: boolean;
    readonly volumeSnapshotInfoList?: readonly VolumeSnapshotInfo[];
    readonly error?: SnapshotError;
  };
}

export interface VolumeGroupSnapshotClass extends KubeObject {
  readonly metadata?: ObjectMeta;
  readonly driver: string;
  readonly deletionPolicy: DeletionPolicy;
  readonly parameters?: Readonly<Record<string, string>>;
}

export const groupSnapshots = resource<VolumeGroupSnapshot>(groupSnapshotGroup, 'v1', 'volumegroupsnapshots', 'VolumeGroupSnapshot', true);
export const groupContents = resource<VolumeGroupSnapshotContent>(
  groupSnapshotGroup,
  'v1',
  'volumegroupsnapshotcontents',
  'VolumeGroupSnapshotContent',
  false,
);
export const groupClasses = resource<VolumeGroupSnapshotClass>(
  groupSnapshotGroup,
  'v1',
  'volumegroupsnapshotclasses',
  'VolumeGroupSnapshotClass',
  false,
);
