import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import type { VolumeDriver, VolumeRequest } from '../volume.ts';

/** Optional capabilities of a driver. A fixture supports everything that it does not list in `unsupported`. */
export type VolumeCapability =
  /** Pods can write to the volume. */
  | 'writing'
  /** Each pod has its own volume, initially empty, deleted with the pod. */
  | 'private'
  /** A volume that cannot be mounted is rejected. */
  | 'refusal'
  /** The content follows API objects. */
  | 'refreshing'
  /** The driver reports usage. */
  | 'usage'
  /** The driver changes the group of the files. Requires root. */
  | 'fsGroup';

/** A volume in a pod's spec, with its PersistentVolume. */
export interface SampleVolume {
  readonly volume: Volume;
  readonly persistentVolume?: PersistentVolume;
}

/** Access to the volume driver under test, provided by the package of the driver. */
export interface VolumeFixture {
  readonly driver: VolumeDriver;
  /** Returns a volume of the driver's kind with this name. Each call may describe the same content. */
  sample(name: string): Promise<SampleVolume> | SampleVolume;
  /** Returns a volume of the driver's kind that cannot be mounted. Required for `refusal`. */
  broken?(name: string): SampleVolume;
  /** Changes the objects behind every sample, and returns the resulting files. Required for `refreshing`. */
  change?(): Promise<Readonly<Record<string, string>>>;
  /** Returns the same driver as another process would create it, without the state in memory. */
  reopen(): Promise<VolumeDriver>;
  readonly unsupported?: Partial<Readonly<Record<VolumeCapability, string>>>;
  dispose?(): Promise<void>;
}

/** The tools that a test of a volume driver uses. */
export interface VolumeHarness {
  readonly fixture: VolumeFixture;
  request(options?: {
    readonly pod?: string;
    readonly name?: string;
    readonly fsGroup?: number;
    readonly sample?: SampleVolume;
  }): Promise<VolumeRequest>;
}

/** Declares a test; it is skipped with the fixture's reason if the driver does not support a required capability. */
export type VolumeCase = (needed: readonly VolumeCapability[], title: string, body: (harness: VolumeHarness) => Promise<void>) => void;
