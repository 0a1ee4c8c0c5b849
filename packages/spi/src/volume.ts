import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';

/** One volume of one pod on this node. */
export interface VolumeRequest {
  readonly pod: Pod;
  readonly volume: Volume;
  /** The bound volume when `volume` is a claim. */
  readonly persistentVolume?: PersistentVolume;
  /** The claim itself, as it was when the volume was first mounted. */
  readonly claim?: PersistentVolumeClaim;
  /** A directory of this pod and volume alone; drivers that mount do it here. Survives restarts of the kubelet. */
  readonly path: string;
  readonly readOnly: boolean;
  /** Group that must be able to read and write, from the pod's security context. */
  readonly fsGroup?: number;
  /** A token of the pod's service account, bound to the pod. What was asked for is given again until it has to be renewed. */
  serviceAccountToken?(request: { readonly audience: string; readonly expirationSeconds?: number }): Promise<ServiceAccountToken>;
}
export interface ServiceAccountToken {
  readonly token: string;
  /** RFC 3339. */
  readonly expirationTimestamp: string;
}

export interface Mounted {
  /** What containers get. */
  readonly hostPath: string;
  /** `hostPath` is a block device, which containers have as such. */
  readonly device?: boolean;
  /** The driver wants to be called again after so many milliseconds, and again. */
  readonly refreshAfterMs?: number;
}

/** What a volume holds. Bytes and inodes; what nobody can tell is absent. */
export interface VolumeUsage {
  readonly capacityBytes?: number;
  readonly usedBytes?: number;
  /** What may still be written; less than what is free where the file system keeps some back. */
  readonly availableBytes?: number;
  readonly inodes?: number;
  readonly inodesUsed?: number;
  readonly inodesFree?: number;
  /** Whether something is wrong with the volume, by those who keep it. Absent: they do not say. */
  readonly condition?: { readonly abnormal: boolean; readonly message: string };
}

/** A volume that is mounted: as it was asked for and as `mount` gave it. */
export interface MountedTarget {
  readonly podUid: string;
  readonly volumeName: string;
  readonly path: string;
  readonly hostPath: string;
  readonly device: boolean;
}

export interface VolumeCall {
  readonly signal?: AbortSignal;
  readonly cause?: Cause | undefined;
}

/**
 * Makes volumes of one kind usable on a node. `mount` and `unmount` are idempotent, and `unmount` succeeds on what is gone.
 */
export interface VolumeDriver {
  /** Called once, before any volume: the node that it is on. Does not wait. */
  begin?(nodeName: string): void;
  /** Whether this driver is the one for the volume. Exactly one of a node's drivers says yes. */
  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean;
  /** Returns the host path to give to containers. @throws VolumeError */
  mount(request: VolumeRequest, call?: VolumeCall): Promise<Mounted>;
  unmount(target: { readonly podUid: string; readonly volumeName: string; readonly path: string }, call?: VolumeCall): Promise<void>;
  /**
   * What a mounted volume holds at this moment; undefined: that cannot be told of it. Without the method it cannot of any. Called
   * about once a minute when somebody reads it, never twice at a time for one volume, and may take as long as `signal` lets it. @throws VolumeError
   */
  usage?(target: MountedTarget, call?: VolumeCall): Promise<VolumeUsage | undefined>;
  /** Content follows API objects: `mount` is called again when one of them changes. */
  readonly refreshes?: boolean;
  /** `namespace/name` of objects whose change calls for a refresh. */
  sources?(request: Pick<VolumeRequest, 'pod' | 'volume'>): readonly { readonly kind: 'ConfigMap' | 'Secret'; readonly key: string }[];
}

const brand = Symbol.for('oarlock:VolumeError');

export type VolumeErrorCode = 'NotFound' | 'InvalidArgument' | 'NotReady' | 'Failed';
export class VolumeError extends Error {
  /** Two copies of this package, a plugin's and ours, agree on what a VolumeError is. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'VolumeError';
  readonly code: VolumeErrorCode;
  constructor(code: VolumeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The name is the CSI driver name, or the field of `v1.Volume` for in-tree kinds: `emptyDir`. */
export const Volumes = slot.named<VolumeDriver>('volume/v1');
