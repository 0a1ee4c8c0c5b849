import type { Readable } from 'node:stream';
import type { Image, RegistryAuth } from '@oarlock/spi/runtime';
import type { ImageConfig } from './image-config.ts';
import type { Platform } from './platform.ts';

/**
 * An image of the store with the fields of CRI: `id` is the digest of the config (`sha256:...`), `repoTags` are names with tags, `repoDigests` names with
 * the digest of the manifest or index that was pulled, `sizeBytes` the compressed size in the registry, and `uid` or `username` the image's user.
 */
export interface ImageRecord extends Image {
  /** Digest of the manifest of the platform. */
  readonly manifestDigest: string;
  readonly config: ImageConfig;
  /** Chain ids of the layers (image-spec, config.md, "Layer ChainID"), the lowest first. Empty for an image without layers. */
  readonly chainIds: readonly string[];
  /** What of the image this machine could not extract, one sentence each, such as skipped device files. Empty if the image is complete. */
  readonly notes: readonly string[];
}

/** Progress of one pull. Numbers only increase, except when a layer has to be downloaded again. */
export interface PullProgress {
  /** Digest of the layer, or of a manifest or config. */
  readonly digest: string;
  readonly status: 'resolving' | 'waiting' | 'downloading' | 'extracting' | 'exists' | 'done';
  readonly completedBytes: number;
  /** Total size in bytes; 0 while it is unknown. */
  readonly totalBytes: number;
}

export interface PullRequest {
  /** Name of the image, with a tag, a digest or both. Without either, the tag is `latest`. */
  readonly reference: string;
  /** Credentials for the host of the reference. They are sent to this host, its mirrors in `hosts.toml`, and its token server, never to a redirect's host. */
  readonly credentials?: RegistryAuth | undefined;
  /** Default: the platform of this machine. */
  readonly platform?: Platform | undefined;
  readonly signal?: AbortSignal | undefined;
  onProgress?(progress: PullProgress): void;
}

export interface LoadRequest {
  /** An archive of `docker save` or an OCI layout as tar, plain or compressed with gzip or zstd. */
  readonly archive: Readable;
  /** Name for an image of the archive that has no name. */
  readonly name?: string | undefined;
  readonly platform?: Platform | undefined;
  readonly signal?: AbortSignal | undefined;
  onProgress?(progress: PullProgress): void;
}

export interface ImageFsInfo {
  /** Directory of the store, whose file system is measured by the kubelet. */
  readonly mountpoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

export interface GarbageCollection {
  readonly freedBytes: number;
  readonly removedLayers: number;
  readonly removedBlobs: number;
}

/**
 * The images of a node: content-addressed blobs, extracted layers, and names.
 *
 * Guaranteed:
 *
 * - an image appears in `list` only when every blob was verified against its digest and size and every layer was extracted completely and verified
 *   against its diff id; after a crash of the process at any time the store has the images that it had, plus those whose operation returned. A power
 *   failure within seconds of a pull can remove the image, but not damage it;
 * - a layer exists once, whichever images use it, and concurrent pulls download and extract it once;
 * - a failed or aborted pull changes no image. Verified blobs and partial downloads remain for the next attempt until `gc`, except after `NoSpace`,
 *   which removes everything that the attempt wrote;
 * - a layer is removed only when no image and no snapshot uses it. Removing the image of a running container removes the name and keeps the files.
 *
 * One process opens a store at a time (`openImageStore` rejects with `InUse`). Methods may run concurrently. They throw `OciError`.
 */
export interface ImageStore {
  /**
   * Pulls an image, extracts its layers and adds the name. Content that is present is not downloaded again.
   * @throws OciError `InvalidReference`, `NotFound`, `Unauthorized`, `Unavailable`, `Unsupported`, `InvalidContent`, `TooLarge`, `NoSpace`
   */
  pull(request: PullRequest): Promise<ImageRecord>;
  /** Adds the images of an archive. @throws OciError as `pull`; images of the archive before the failing one are kept */
  load(request: LoadRequest): Promise<readonly ImageRecord[]>;
  /** Returns the image with this name, `name@digest`, id (with or without `sha256:`) or unique prefix of an id of at least 12 digits. */
  status(image: string): ImageRecord | undefined;
  list(): readonly ImageRecord[];
  /**
   * Removes a name, or by id the image with all its names. The last name removes the image, and its layers unless a snapshot or another image uses them.
   * Succeeds if the image does not exist.
   */
  remove(image: string): Promise<void>;
  /** Adds a name to an image. @throws OciError `NotFound`, `InvalidReference` */
  tag(image: string, reference: string): Promise<ImageRecord>;
  /** Marks an image as pinned: the kubelet's garbage collection keeps it. @throws OciError `NotFound` */
  pin(image: string, pinned: boolean): Promise<void>;
  /** Returns the disk usage of blobs, layers and snapshots. */
  fsInfo(): Promise<ImageFsInfo>;
  /** Removes blobs, partial downloads and layers that no image, snapshot or running pull uses. */
  gc(): Promise<GarbageCollection>;
  /** Waits until running operations have ended or aborted, and releases the lock. */
  close(): Promise<void>;
}
