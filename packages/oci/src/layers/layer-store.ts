import type { Stats } from 'node:fs';
import { chmod, lchown, lstat, lutimes, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Logger } from '@oarlock/primitives/logger';
import { bytePath, osPath, type BytePath } from '../archive/byte-path.ts';
import type { Digest } from '../content/digest.ts';
import { defaultLayerLimits, type LayerContent, type LayerLimits, type LayerRecord } from './layer-record.ts';
import { diskError } from '../disk-error.ts';
import type { TreeWorkers } from './tree-workers.ts';

export interface StoredLayer extends LayerRecord {
  /** Directory with the layer's files. */
  readonly files: string;
}
export interface LayerStoreOptions {
  readonly directory: string;
  readonly workers: TreeWorkers;
  /** True if the process may change owners of files. */
  readonly privileged: boolean;
  readonly bootId: string;
  readonly log: Logger;
  /** Writes the dirty pages of a file system to the disk. */
  syncFileSystem(directory: string): Promise<void>;
  readonly limits?: LayerLimits;
}
export interface ExtractRequest {
  readonly blob: string;
  readonly chainId: Digest;
  readonly diffId: Digest;
  /** Resolves when the layers below are committed; they give directories without an entry their modes. */
  readonly lower: Promise<readonly StoredLayer[]>;
  readonly signal: AbortSignal;
}

/** File in a layer's directory that marks the layer as on the disk. */
const syncedMarker = 'synced';

/**
 * Extracted layers by chain id, each in `layers/NAME` with its files in `files` and its record in `layer.json`. A layer is extracted in `ingest` and appears
 * by a rename. Names are short, because the options of a mount with many layers are limited.
 */
export class LayerStore {
  readonly #options: LayerStoreOptions;
  readonly #layers = new Map<Digest, StoredLayer>();
  readonly #unsynced = new Set<Digest>();
  #lastName = 0;

  private constructor(options: LayerStoreOptions) {
    this.#options = options;
  }

  /** Removes what a crash left. Layers of an earlier boot that were not synchronized to the disk may be damaged, and are removed. */
  static async open(options: LayerStoreOptions): Promise<LayerStore> {
    const store = new LayerStore(options);
    for (const folder of ['layers', 'ingest', 'trash']) await mkdir(join(options.directory, folder), { recursive: true, mode: 0o700 });
    for (const folder of ['ingest', 'trash'])
      for (const name of await readdir(join(options.directory, folder)))
        await options.workers.run('remove', { path: join(options.directory, folder, name) });
    for (const name of await readdir(join(options.directory, 'layers'))) await store.#load(name);
    return store;
  }

  get(chainId: Digest): StoredLayer | undefined {
    return this.#layers.get(chainId);
  }
  list(): readonly StoredLayer[] {
    return [...this.#layers.values()];
  }
  /** Returns the layers of a chain, the lowest first; undefined if one is absent. */
  chain(chainIds: readonly Digest[]): readonly StoredLayer[] | undefined {
    const layers = chainIds.map((chainId) => this.#layers.get(chainId));
    return layers.every((layer) => layer !== undefined) ? layers : undefined;
  }

  /** Extracts a layer and stores it. @throws OciError `InvalidContent`, `TooLarge`, `NoSpace` */
  async extract({ blob, chainId, diffId, lower, signal }: ExtractRequest): Promise<StoredLayer> {
    const { directory, workers, privileged, limits = defaultLayerLimits } = this.#options;
    const ingest = join(directory, 'ingest', randomBytes(8).toString('hex'));
    await mkdir(ingest, { mode: 0o700 });
    try {
      const root = join(ingest, 'files');
      const request = { blob, root, staging: join(ingest, 'staging'), diffId, limits, privileged };
      const content = await workers.run('extract', request, signal);
      const below = await lower;
      await this.#inheritModes(root, content, below);
      return await this.#commit(ingest, { ...content, chainId, diffId });
    } catch (error) {
      await this.#discard(ingest);
      throw diskError(error);
    }
  }

  /** Removes a layer that nothing uses. It is gone from the store when the call returns its promise; its files are removed later. */
  async remove(chainId: Digest): Promise<void> {
    const layer = this.#layers.get(chainId);
    if (!layer) return;
    this.#layers.delete(chainId);
    await this.#discard(join(this.#options.directory, 'layers', layer.name));
  }

  /** Writes the layers that were extracted since the last call to the disk, and marks them. */
  async sync(): Promise<void> {
    const chainIds = [...this.#unsynced];
    if (chainIds.length === 0) return;
    await this.#options.syncFileSystem(this.#options.directory);
    for (const chainId of chainIds) {
      this.#unsynced.delete(chainId);
      const layer = this.#layers.get(chainId);
      if (layer) await writeAtomic(join(layer.files, '..', syncedMarker), '', { sync: true });
    }
  }

  async #load(name: string): Promise<void> {
    const { directory, bootId, log } = this.#options;
    const folder = join(directory, 'layers', name);
    const isSynced = (await readIfExists(join(folder, syncedMarker))) !== undefined;
    let record: LayerRecord | undefined;
    try {
      record = JSON.parse(await readFile(join(folder, 'layer.json'), 'utf8')) as LayerRecord;
    } catch (error) {
      log.warn({ err: error, layer: name }, 'removing a layer without a readable record');
    }
    if (!record || (record.bootId !== bootId && !isSynced) || this.#layers.has(record.chainId)) {
      await this.#discard(folder);
      return;
    }
    this.#lastName = Math.max(this.#lastName, Number.parseInt(name, 36) || 0);
    this.#layers.set(record.chainId, { ...record, name, files: join(folder, 'files') });
    if (!isSynced) this.#unsynced.add(record.chainId);
  }

  async #commit(ingest: string, content: LayerContent & { readonly chainId: Digest; readonly diffId: Digest }): Promise<StoredLayer> {
    this.#lastName += 1;
    const name = this.#lastName.toString(36);
    const record: LayerRecord = { ...content, name, bootId: this.#options.bootId };
    await writeAtomic(join(ingest, 'layer.json'), JSON.stringify(record), { sync: true });
    const folder = join(this.#options.directory, 'layers', name);
    await rename(ingest, folder);
    // two sources may bring the same layer
    const present = this.#layers.get(content.chainId);
    if (present) {
      await this.#discard(folder);
      return present;
    }
    const layer = { ...record, files: join(folder, 'files') };
    this.#layers.set(content.chainId, layer);
    this.#unsynced.add(content.chainId);
    return layer;
  }

  /** Gives directories without an entry the mode, owner and times that they have in the layers below. */
  async #inheritModes(root: string, { implied }: LayerContent, lower: readonly StoredLayer[]): Promise<void> {
    for (const path of implied) {
      const stats = await lowerDirectory(path, lower);
      if (!stats) continue;
      const at = osPath(path === '' ? bytePath(root) : `${bytePath(root)}/${path}`);
      if (this.#options.privileged) await lchown(at, stats.uid, stats.gid);
      await chmod(at, stats.mode & 0o7777);
      await lutimes(at, stats.atime, stats.mtime);
    }
  }

  async #discard(folder: string): Promise<void> {
    const { directory, workers } = this.#options;
    const trash = join(directory, 'trash', randomBytes(8).toString('hex'));
    try {
      await rename(folder, trash);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
      throw error;
    }
    await workers.run('remove', { path: trash });
    await rm(trash, { recursive: true, force: true });
  }
}

/** Returns the directory of the highest lower layer that has the path, without following links; undefined if the path is absent or not a directory. */
async function lowerDirectory(path: BytePath, lower: readonly StoredLayer[]): Promise<Stats | undefined> {
  for (const { files, whiteouts } of [...lower].reverse()) {
    let at = bytePath(files);
    let stats: Stats | undefined = await lstat(osPath(at));
    for (const name of path === '' ? [] : path.split('/')) {
      at = `${at}/${name}`;
      stats = await lstatIfExists(at);
      if (stats?.isDirectory() !== true) break;
    }
    if (stats) return stats.isDirectory() ? stats : undefined;
    if (whiteouts.some((hidden) => hidden === path || path.startsWith(`${hidden}/`))) return undefined;
  }
  return undefined;
}

async function lstatIfExists(path: BytePath): Promise<Stats | undefined> {
  try {
    return await lstat(osPath(path));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
