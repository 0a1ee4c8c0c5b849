import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';

/** One volume of one pod on this node. */
export interface VolumeRequest {
  readonly pod: Pod;
  readonly volume: Volume;
  /** The bound PersistentVolume, if `volume` is a claim. */
  readonly persistentVolume?: PersistentVolume;
  /** The PersistentVolumeClaim as it was when this pod first mounted the volume; later changes are not visible. Absent if `volume` is not a claim. */
  readonly claim?: PersistentVolumeClaim;
  /** A directory reserved for this volume of this pod, in which the driver mounts the volume. The directory survives restarts of the kubelet. */
  readonly path: string;
  readonly readOnly: boolean;
  /** `fsGroup` of the pod's security context: the group that must be able to read and write the volume. */
  readonly fsGroup?: number;
  /** Returns a token of the pod's service account, bound to the pod. Returns the same token until the token must be renewed. */
  serviceAccountToken?(request: { readonly audience: string; readonly expirationSeconds?: number }): Promise<ServiceAccountToken>;
}
export interface ServiceAccountToken {
  readonly token: string;
  /** Expiry in RFC 3339. */
  readonly expirationTimestamp: string;
}

export interface MountResult {
  /** The path to mount into containers. */
  readonly hostPath: string;
  /** True if `hostPath` is a block device to pass to containers. */
  readonly device?: boolean;
  /** Delay in milliseconds after which the kubelet calls `mount` again, repeatedly. */
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
  /** Health of the volume as the volume driver reports it; absent if the driver does not report it. */
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
 * Guaranteed: `mount` and `unmount` are idempotent, also after a crash; `unmount` succeeds if nothing is mounted, and never deletes the content of a
 * mounted volume. The kubelet makes one call at a time for one volume of one pod.
 *
 * Every method throws `VolumeError`; the kubelet retries with backoff.
 */
export interface VolumeDriver {
  /** Passes the node's name to the driver. Called once, before any volume is mounted. Must not block. */
  setNodeName?(nodeName: string): void;
  /** Returns true if this driver is responsible for the volume. Exactly one driver of a node must return true. */
  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean;
  /** Makes the volume available and returns the path to mount into containers. @throws VolumeError if the volume cannot be mounted */
  mount(request: VolumeRequest, call?: VolumeCallOptions): Promise<MountResult>;
  unmount(target: { readonly podUid: string; readonly volumeName: string; readonly path: string }, call?: VolumeCallOptions): Promise<void>;
  /**
   * Returns the current usage of a mounted volume, or undefined if the usage cannot be determined. Absent if the driver reports no usage.
   *
   * Called about once a minute while statistics are read, never concurrently for one volume. May take until `signal` aborts.
   * @throws VolumeError if the usage cannot be read
   */
  usage?(target: MountedTarget, call?: VolumeCallOptions): Promise<VolumeUsage | undefined>;
  /** True if the content of volumes depends on API objects: the kubelet calls `mount` again when one of `sourceObjects` changes. */
  readonly requiresRemount?: boolean;
  /** Returns the objects (`namespace/name`) whose changes require a remount. */
  sourceObjects?(
    request: Pick<VolumeRequest, 'pod' | 'volume'>,
  ): readonly { readonly kind: 'ConfigMap' | 'Secret'; readonly key: string }[];
}

const brand = Symbol.for('oarlock:VolumeError');

/** `ResourceExhausted`: the volume cannot be attached because the node has reached its limit. The kubelet rejects the pod, as a retry would not help. */
export type VolumeErrorCode = 'NotFound' | 'InvalidArgument' | 'NotReady' | 'Failed' | 'ResourceExhausted';
export interface VolumeErrorOptions extends ErrorOptions {
  /** The failed step of a mount: making the volume available on the node (MountDevice) or to the pod (SetUp, the default). The kubelet's event names it. */
  readonly operation?: 'MountDevice' | 'SetUp';
}
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
  readonly operation: 'MountDevice' | 'SetUp';
  constructor(code: VolumeErrorCode, message: string, options?: VolumeErrorOptions) {
    super(message, options);
    this.code = code;
    this.operation = options?.operation ?? 'SetUp';
  }
}

/** The slot of volume drivers. The plugin name is the CSI driver name; for in-tree volumes, the field of `v1.Volume`, such as `emptyDir`. */
export const Volumes = slot.named<VolumeDriver>('volume/v1');
