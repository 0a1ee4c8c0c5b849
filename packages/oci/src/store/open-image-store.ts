import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { mkdir, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { acquireLock, currentProcess, releaseLock } from '@oarlock/primitives/os/process-lock';
import { defaultPath } from '@oarlock/primitives/os/run-program';
import { ContentStore } from '../content/content-store.ts';
import type { ImageStore } from '../image-store.ts';
import { FileImageStore } from '../images/file-image-store.ts';
import { ImageIndex } from '../images/image-index.ts';
import { syncFileSystem } from '../images/sync-file-system.ts';
import { Leases } from '../content/leases.ts';
import { LayerStore } from '../layers/layer-store.ts';
import { TreeWorkers } from '../layers/tree-workers.ts';
import { OciError } from '../oci-error.ts';
import { HttpClient } from '../registry/http-client.ts';
import type { ProxySettings } from '../registry/proxy.ts';
import type { Snapshotter, SnapshotterKind } from '../snapshotter.ts';
import { chooseDriver } from '../snapshots/choose-driver.ts';
import { DirectorySnapshotter } from '../snapshots/directory-snapshotter.ts';

export interface ImageStoreOptions {
  /** Directory of the store; created if absent. Snapshots are in the same directory. */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number from 0 to 1, for the jitter of retries. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
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
  /** False if the caller cannot mount with fuse-overlayfs; default true. */
  readonly fuse?: boolean | undefined;
  /** Threads that several stores share; the caller closes them. Default: threads of the store. */
  readonly workers?: TreeWorkers | undefined;
  /** Writes the dirty pages of a directory's file system to the disk. Default: sync(1). */
  readonly syncFileSystem?: ((directory: string) => Promise<void>) | undefined;
}

export interface OpenImageStore {
  readonly images: ImageStore;
  readonly snapshots: Snapshotter;
  /** Why better snapshotters were not chosen, one sentence each; empty with overlayfs. */
  readonly snapshotterNotes: readonly string[];
}

const defaultDownloads = 3;

/**
 * Opens the store of a directory: takes the lock, and removes what a crash left half-made.
 * @throws OciError `InUse` if another process has the store open, `FailedPrecondition` if the requested snapshotter does not work on this machine
 */
export async function openImageStore(options: ImageStoreOptions): Promise<OpenImageStore> {
  const directory = resolve(options.directory);
  await mkdir(directory, { recursive: true, mode: 0o711 });
  const lock = join(directory, 'lock');
  const holder = await acquireLock(lock, await currentProcess());
  if (holder) throw new OciError('InUse', `the image store ${directory} is in use by the process ${holder.pid}`);
  const workers = options.workers ?? new TreeWorkers(options.clock, Math.min(4, availableParallelism()));
  const release = async () => {
    if (!options.workers) await workers.close();
    await releaseLock(lock);
  };
  try {
    return await openParts(directory, options, { workers, release });
  } catch (error) {
    await release();
    throw error;
  }
}

async function openParts(
  directory: string,
  options: ImageStoreOptions,
  { workers, release }: { readonly workers: TreeWorkers; release(): Promise<void> },
): Promise<OpenImageStore> {
  const { clock, log } = options;
  const privileged = canChangeOwner();
  const bootId = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
  const leases = new Leases();
  const index = await ImageIndex.open(directory, log);
  const sync = options.syncFileSystem ?? ((path: string) => syncFileSystem(path, log));
  const layers = await LayerStore.open({ directory, workers, privileged, bootId, log, syncFileSystem: sync });
  const content = await ContentStore.open(directory);
  const { snapshotter: wanted = 'auto', fuse = true } = options;
  const { driver, notes } = await chooseDriver({ directory, wanted, workers, privileged, fuse });
  const snapshots = await DirectorySnapshotter.open({
    directory,
    driver,
    layers,
    leases,
    workers,
    clock,
    log,
    chainIdsOf: (image) => index.get(image)?.chainIds,
  });
  const images = await FileImageStore.open({
    directory,
    clock,
    log,
    random: options.random ?? Math.random,
    http: new HttpClient(clock, options.proxy ?? {}),
    content,
    layers,
    index,
    leases,
    hostsDirectory: options.hostsDirectory,
    dockerConfig: options.dockerConfig,
    helperPath: options.helperPath ?? defaultPath,
    maxConcurrentDownloads: options.maxConcurrentDownloads ?? defaultDownloads,
    snapshotLayers: () => snapshots.layersInUse(),
    snapshotUsage: () => snapshots.totalUsage(),
    onClose: release,
  });
  return { images, snapshots, snapshotterNotes: notes };
}
