import type { Topology } from '@oarlock/csi/csi-types';
import type { Publications } from '../store/publications.ts';
import type { Stagings } from '../store/stagings.ts';
import type { VolumeStore } from '../store/volume-store.ts';
import type { VolumeLocks } from './volume-locks.ts';

interface ServiceOptions {
  readonly store: VolumeStore;
  readonly publications: Publications;
  readonly locks: VolumeLocks;
  readonly nodeId: string;
  /** The topology from which volumes are accessible; undefined if volumes are accessible from every node. */
  readonly topology: Topology | undefined;
  /** True if a volume must be attached to a node before the node can use it. */
  readonly attach: boolean;
  /** The maximum number of volumes per node; 0 for no limit. */
  readonly maxVolumes: number;
}

export interface ControllerOptions extends ServiceOptions {
  /** True if volumes that are directories require NodeExpandVolume as well. */
  readonly nodeExpansion: boolean;
  /** The names of the parameters that ControllerModifyVolume may change. */
  readonly mutable: readonly string[];
  /** The total capacity of all volumes in bytes. */
  readonly capacityBytes: number;
  now(): number;
}

export interface NodeOptions extends ServiceOptions {
  readonly stagings: Stagings;
}
