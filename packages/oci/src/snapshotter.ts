/** A mount that the caller must make on the root directory of a container. */
export interface SnapshotMount {
  /** `overlay` for mount(8), or `fuse-overlayfs` for the program of this name. */
  readonly type: 'overlay' | 'fuse-overlayfs';
  readonly options: readonly string[];
  /** Directory to which the paths in `options` are relative, because mount(2) limits the options to one page. It is the working directory of the mount. */
  readonly directory: string;
}

/**
 * The files of a container: a directory that can be used as it is (`path`), or a mount to make. `mountRoot` and `unmountRoot` of
 * `@oarlock/oci/snapshots/mount-root` make and remove either at a directory.
 */
export type RootFilesystem =
  | { readonly path: string; readonly mount?: undefined }
  | { readonly mount: SnapshotMount; readonly path?: undefined };

export interface SnapshotRequest {
  /** Name of the snapshot, such as the container's id: letters, digits, `.`, `_` and `-`, at most 128. */
  readonly key: string;
  /** Id of an image of the store. */
  readonly image: string;
}

export interface Snapshot {
  readonly key: string;
  /** Id of the image from which the snapshot was made. The image may have been removed; its layers are kept for the snapshot. */
  readonly image: string;
  readonly kind: 'container' | 'view';
}

export interface SnapshotUsage {
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

/** How a snapshotter makes the root of a container, and what it needs. */
export type SnapshotterKind = 'overlayfs' | 'fuse-overlayfs' | 'copy';

/**
 * Root directories of containers, made from the layers of an image.
 *
 * Guaranteed, and tested by the contract suite for each implementation:
 *
 * - `prepare` with the key of an existing snapshot of the same image returns this snapshot with its files, so that it can be repeated after a crash;
 *   with another image it is rejected;
 * - the files of two snapshots are independent, and writes never change the image;
 * - whiteouts and opaque directories hide files of lower layers; hard links within a layer, symbolic links, modes, times and (as root) owners are kept;
 * - `remove` succeeds if the snapshot does not exist; after a crash in the middle, the snapshot is in `list` or completely gone, and `remove` can be
 *   repeated;
 * - a view is never written: the caller mounts it read-only. Several containers may use the same view.
 *
 * The caller unmounts a root before `remove`.
 */
export interface Snapshotter {
  readonly kind: SnapshotterKind;
  /** Makes a writable root. @throws OciError `NotFound` if the image does not exist, `InUse` if the key belongs to another image, `NoSpace` */
  prepare(request: SnapshotRequest, signal?: AbortSignal): Promise<RootFilesystem>;
  /** Makes a read-only tree of the image's files, for image volumes. @throws OciError as `prepare` */
  view(request: SnapshotRequest, signal?: AbortSignal): Promise<RootFilesystem>;
  /** Returns the root of an existing snapshot without changing anything, or undefined. */
  root(key: string): Promise<RootFilesystem | undefined>;
  list(): readonly Snapshot[];
  /** Removes a snapshot with its files and releases its layers. */
  remove(key: string): Promise<void>;
  /** Returns what the snapshot itself occupies, without the layers of the image. @throws OciError `NotFound` */
  usage(key: string, signal?: AbortSignal): Promise<SnapshotUsage>;
}
