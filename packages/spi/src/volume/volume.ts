import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';

/** One volume of one pod on this node. */
export interface VolumeRequest {
  readonly pod: Pod;
  readonly volume: Volume;
  /** The bound PersistentVolume, if `volume` is a claim. */
  readonly persistentVolume?: PersistentVolume;
  /** The claim as of the first mount of the volume. */
  readonly claim?: PersistentVolumeClaim;
  /** A directory reserved for this volume of this pod; drivers mount here. It survives restarts of the kubelet. */
  readonly path: string;
  readonly readOnly: boolean;
  /** `fsGroup` of the pod's security context: the group that must be able to read and write. */
  readonly fsGroup?: number;
  /** Returns a token of the pod's service account, bound to the pod. Repeated requests return the same token until it must be renewed. */
  serviceAccountToken?(request: { readonly audience: string; readonly expirationSeconds?: number }): Promise<ServiceAccountToken>;
}
export interface ServiceAccountToken {
  readonly token: string;
  /** RFC 3339. */
  readonly expirationTimestamp: string;
}

export interface MountResult {
  /** The path to mount into containers. */
  readonly hostPath: string;
  /** True if `hostPath` is a block device to pass to containers. */
  readonly device?: boolean;
  /** Calls `mount` again after this delay in milliseconds, repeatedly. */
  readonly refreshAfterMs?: number;
}

/** Usage of a volume in bytes and inodes. Unknown values are absent. */
export interface VolumeUsage {
  readonly capacityBytes?: number;
  readonly usedBytes?: number;
  /** Bytes that can still be written; less than the free bytes if the file system reserves some. */
  readonly availableBytes?: number;
  readonly inodes?: number;
  readonly inodesUsed?: number;
  readonly inodesFree?: number;
  /** Health of the volume as its driver reports it. Absent: not reported. */
  readonly condition?: { readonly abnormal: boolean; readonly message: string };
}

/** A mounted volume: the parts of the request and of the result of `mount` that `usage` needs. */
export interface MountedTarget {
  readonly podUid: string;
  readonly volumeName: string;
  readonly path: string;
  readonly hostPath: string;
  readonly device: boolean;
}

export interface VolumeCallOptions {
  readonly signal?: AbortSignal;
  readonly spanContext?: SpanContext | undefined;
}

/**
 * Makes volumes of one kind available on a node (`volume.VolumePlugin` upstream).
 *
 * Guaranteed: `mount` and `unmount` are idempotent, also after a crash; `unmount` succeeds if nothing is mounted; it never deletes the
 * content of a mounted volume. The caller makes one call at a time for one volume of one pod.
 *
 * Every method throws `VolumeError`; the kubelet retries with backoff.
 */
export interface VolumeDriver {
  /** Called once with the node's name, before any volume. Must not block. */
  setNodeName?(nodeName: string): void;
  /** Returns true if this driver is responsible for the volume. Exactly one driver of a node must return true. */
  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean;
  /** Makes the volume available and returns its path for containers. @throws VolumeError */
  mount(request: VolumeRequest, call?: VolumeCallOptions): Promise<MountResult>;
  unmount(target: { readonly podUid: string; readonly volumeName: string; readonly path: string }, call?: VolumeCallOptions): Promise<void>;
  /**
   * Returns the current usage of a mounted volume, or undefined if it cannot be determined. Absent: not supported for any volume.
   *
   * Called about once a minute while statistics are read, never concurrently for one volume. It may take until `signal` aborts.
   * @throws VolumeError
   */
  usage?(target: MountedTarget, call?: VolumeCallOptions): Promise<VolumeUsage | undefined>;
  /** True if the content depends on API objects: `mount` is called again when one of `sourceObjects` changes. */
  readonly requiresRemount?: boolean;
  /** Returns the objects (`namespace/name`) whose changes require a remount. */
  sourceObjects?(
    request: Pick<VolumeRequest, 'pod' | 'volume'>,
  ): readonly { readonly kind: 'ConfigMap' | 'Secret'; readonly key: string }[];
}

const brand = Symbol.for('oarlock:VolumeError');

export type VolumeErrorCode = 'NotFound' | 'InvalidArgument' | 'NotReady' | 'Failed';
export class VolumeError extends Error {
  /** Makes `instanceof` work across two copies of this package: Oarlock's and a plugin's. */
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

/** The plugin name is the CSI driver name, or for in-tree kinds the field of `v1.Volume`: `emptyDir`. */
export const Volumes = slot.named<VolumeDriver>('volume/v1');
