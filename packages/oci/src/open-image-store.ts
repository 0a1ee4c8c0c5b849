import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ImageStore } from './image-store.ts';
import type { Snapshotter, SnapshotterKind } from './snapshotter.ts';

/** Proxies for requests to registries, as in the environment variables of the same names; `noProxy` is a comma-separated list. */
export interface ProxySettings {
  readonly httpProxy?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly noProxy?: string | undefined;
}

export interface ImageStoreOptions {
  /** Directory of the store; created if absent. Snapshots are in the same directory. */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Directory with `HOST/hosts.toml` in containerd's layout (config_path). */
  readonly hostsDirectory?: string | undefined;
  /** File in the format of docker's config.json, for credentials and credential helpers of requests without credentials. */
  readonly dockerConfig?: string | undefined;
  /** PATH for credential helpers. */
  readonly helperPath?: string | undefined;
  readonly proxy?: ProxySettings | undefined;
  /** Concurrent downloads of layers over all pulls. Default 3, as in containerd. */
  readonly maxConcurrentDownloads?: number | undefined;
  /** `auto` takes the first that works on this machine: overlayfs, fuse-overlayfs, copy. Default `auto`. */
  readonly snapshotter?: SnapshotterKind | 'auto' | undefined;
}

export interface OpenImageStore {
  readonly images: ImageStore;
  readonly snapshots: Snapshotter;
  /** Why better snapshotters were not chosen, one sentence each; empty with overlayfs. */
  readonly snapshotterNotes: readonly string[];
}

/**
 * Opens the store of a directory: removes what a crash left half-made, and takes the lock.
 * @throws OciError `InUse` if another process has the store open, `FailedPrecondition` if the requested snapshotter does not work on this machine
 */
export type OpenImageStoreFunction = (options: ImageStoreOptions) => Promise<OpenImageStore>;
