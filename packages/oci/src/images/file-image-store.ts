import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import type { ContentStore } from '../content/content-store.ts';
import { isDigest, type Digest } from '../content/digest.ts';
import type { ImageConfig } from '../image-config.ts';
import type { GarbageCollection, ImageFsInfo, ImageRecord, ImageStore, LoadRequest, PullRequest } from '../image-store.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import { OciError } from '../oci-error.ts';
import { machinePlatform } from '../platform.ts';
import { formatReference, parseReference, type Reference } from '../reference.ts';
import { AbandonedPulls } from './abandoned-pulls.ts';
import { imagesOfArchive } from './archive-images.ts';
import { collectGarbage } from './collect-garbage.ts';
import type { ImageIndex, IndexEntry } from './image-index.ts';
import type { Leases } from '../content/leases.ts';
import { imageRecord, withoutName } from './image-record.ts';
import { SpooledArchive } from './load-archive.ts';
import { loadImage } from './load-image.ts';
import { limits } from '../content/manifest.ts';
import { parseImageConfig } from './parse-image-config.ts';
import { openRegistry, type RegistryOptions } from './open-registry.ts';
import { pullImage } from './pull-image.ts';
import { Unpacker } from './unpacker.ts';

export interface FileImageStoreOptions extends RegistryOptions {
  readonly directory: string;
  readonly content: ContentStore;
  readonly layers: LayerStore;
  readonly index: ImageIndex;
  readonly leases: Leases;
  readonly maxConcurrentDownloads: number;
  /** Returns the chain ids that snapshots use. */
  snapshotLayers(): Iterable<Digest>;
  /** Returns the disk usage of all snapshots. */
  snapshotUsage(): Promise<{ readonly usedBytes: number; readonly inodesUsed: number }>;
  /** Releases the lock and ends threads, after the last operation. */
  onClose(): Promise<void>;
}

const shortId = /^(?:sha256:)?([a-f0-9]{12,64})$/;

/** The image store in a directory. See `openImageStore`. */
export class FileImageStore implements ImageStore {
  readonly #options: FileImageStoreOptions;
  readonly #unpacker: Unpacker;
  readonly #changes = new KeyedLock();
  readonly #configs = new Map<Digest, ImageConfig>();
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #abandoned: AbandonedPulls;

  private constructor(options: FileImageStoreOptions) {
    this.#options = options;
    const { content, layers, leases, maxConcurrentDownloads: maxDownloads } = options;
    this.#unpacker = new Unpacker(content, layers, { leases, maxDownloads });
    this.#abandoned = new AbandonedPulls({ ...options, collect: () => this.gc(), change: (work) => this.#change(work) });
  }

  /** Reads the configs of all images. Images whose content is gone are removed from the index, so that they are pulled again. */
  static async open(options: FileImageStoreOptions): Promise<FileImageStore> {
    const store = new FileImageStore(options);
    const { index, layers, log } = options;
    const lost: Digest[] = [];
    for (const { id, tags, chainIds } of index.list()) {
      try {
        if (!layers.chain(chainIds)) throw new OciError('NotFound', 'a layer is absent');
        await store.#loadConfig(id);
      } catch (error) {
        log.warn({ err: error, image: id, tags }, 'removing an image with incomplete content');
        lost.push(id);
      }
    }
    if (lost.length > 0) await index.update([], lost);
    store.#syncSoon();
    if ((await options.content.partials()).length > 0) store.#abandoned.add();
    return store;
  }

  pull(request: PullRequest): Promise<ImageRecord> {
    return this.#operation(request.signal, (signal) => this.#pull(request, signal));
  }

  load(request: LoadRequest): Promise<readonly ImageRecord[]> {
    return this.#operation(request.signal, (signal) => this.#load(request, signal));
  }

  status(image: string): ImageRecord | undefined {
    const id = this.#idOf(image);
    const entry = id === undefined ? undefined : this.#options.index.get(id);
    return entry && this.#record(entry);
  }

  list(): readonly ImageRecord[] {
    return this.#options.index.list().map((entry) => this.#record(entry));
  }

  remove(image: string): Promise<void> {
    return this.#operation(undefined, async () => {
      await this.#change(async () => {
        const id = this.#idOf(image);
        const entry = id === undefined ? undefined : this.#options.index.get(id);
        if (!entry) return;
        const left = isDigest(image) || shortId.test(image) ? { tags: [], digests: [] } : withoutName(entry, parseReference(image));
        const isLast = left.tags.length === 0 && left.digests.length === 0;
        await this.#options.index.update(isLast ? [] : [{ ...entry, ...left }], isLast ? [entry.id] : []);
        if (isLast) this.#configs.delete(entry.id);
      });
      await this.#collect();
    });
  }

  tag(image: string, reference: string): Promise<ImageRecord> {
    const parsed = parseReference(reference);
    if (parsed.tag === undefined) throw new OciError('InvalidReference', `"${reference}" has no tag`);
    const name = formatReference({ ...parsed, digest: undefined });
    return this.#edit(image, (entry) => ({ ...entry, tags: [...new Set([...entry.tags, name])] }));
  }

  async pin(image: string, pinned: boolean): Promise<void> {
    await this.#edit(image, (entry) => ({ ...entry, pinned }));
  }

  async fsInfo(): Promise<ImageFsInfo> {
    const { directory, content, layers, snapshotUsage } = this.#options;
    const blobs = content.blobs();
    const stored = layers.list();
    const snapshots = await snapshotUsage();
    return {
      mountpoint: directory,
      usedBytes:
        blobs.reduce((sum, { size }) => sum + size, 0) + stored.reduce((sum, { usedBytes }) => sum + usedBytes, 0) + snapshots.usedBytes,
      inodesUsed: blobs.length + stored.reduce((sum, { inodes }) => sum + inodes + 2, 0) + snapshots.inodesUsed,
    };
  }

  gc(): Promise<GarbageCollection> {
    return this.#operation(undefined, () => this.#collect());
  }

  async close(): Promise<void> {
    this.#closing.abort(new OciError('FailedPrecondition', 'the image store is closed'));
    this.#abandoned.stop();
    // an operation that ends may start another
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
    this.#options.http.close();
    await this.#options.onClose();
  }

  /** Runs an operation that `close` aborts and waits for. A full disk gives back what the operation wrote. */
  async #operation<T>(callerSignal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#closing.signal.throwIfAborted();
    const running = work(callerSignal ? AbortSignal.any([callerSignal, this.#closing.signal]) : this.#closing.signal);
    this.#running.add(running);
    try {
      return await running;
    } catch (error) {
      if (error instanceof OciError && error.code === 'NoSpace') await this.#collect();
      throw error;
    } finally {
      this.#running.delete(running);
    }
  }

  async #pull(
    { reference: text, credentials, platform = machinePlatform(), onProgress }: PullRequest,
    signal: AbortSignal,
  ): Promise<ImageRecord> {
    const { content, index } = this.#options;
    const reference = parseReference(text);
    const registry = await openRegistry(this.#options, { reference, credentials, signal });
    const known = index.get(index.idOf(formatReference({ ...reference, digest: undefined })) ?? '');
    const hold = this.#options.leases.holder();
    try {
      const entry = await pullImage({
        content,
        unpacker: this.#unpacker,
        hold: hold.add,
        registry,
        reference,
        platform,
        known: known?.blobs[0],
        signal,
        onProgress: (progress) => onProgress?.(progress),
      });
      return await this.#store(entry);
    } catch (error) {
      this.#abandoned.add();
      throw error;
    } finally {
      hold.release();
    }
  }

  async #load(
    { archive, name, platform = machinePlatform(), onProgress }: LoadRequest,
    signal: AbortSignal,
  ): Promise<readonly ImageRecord[]> {
    const { content } = this.#options;
    if (name !== undefined) parseReference(name);
    const spooled = await SpooledArchive.read(archive, content, signal);
    const hold = this.#options.leases.holder();
    try {
      const records: ImageRecord[] = [];
      const images = await imagesOfArchive(spooled, { platform, name });
      for (const image of images) hold.add(image.layers.map(({ digest }) => digest));
      for (const image of images) {
        const entry = await loadImage(spooled, image, {
          content,
          unpacker: this.#unpacker,
          signal,
          hold: hold.add,
          onProgress: (progress) => onProgress?.(progress),
        });
        records.push(await this.#store(entry));
      }
      return records;
    } finally {
      await spooled.remove();
      hold.release();
      await this.#collect();
    }
  }

  /** Records an image whose layers are extracted. */
  async #store(entry: IndexEntry): Promise<ImageRecord> {
    const { index } = this.#options;
    this.#syncSoon();
    await this.#loadConfig(entry.id);
    return this.#change(async () => {
      const before = index.get(entry.id);
      const union = (key: 'tags' | 'digests' | 'blobs') => [...new Set([...(before?.[key] ?? []), ...entry[key]])];
      const merged = { ...entry, tags: union('tags'), digests: union('digests'), blobs: union('blobs'), pinned: before?.pinned ?? false };
      // the digest that the reference has now is the first, so that a later pull can compare it
      await index.update([{ ...merged, blobs: [...new Set([...entry.blobs, ...merged.blobs])] }]);
      return this.#record(merged);
    });
  }

  /** Synchronizes new layers to the disk while the containers of the image start. A power failure before the end costs another pull. */
  #syncSoon(): void {
    const { log, layers } = this.#options;
    const syncing = this.#changes
      .run('sync', () => layers.sync())
      .catch((error: unknown) => log.warn({ err: error }, 'layers were not synchronized to the disk'));
    this.#running.add(syncing);
    void syncing.then(() => this.#running.delete(syncing));
  }

  #edit(image: string, change: (entry: IndexEntry) => IndexEntry): Promise<ImageRecord> {
    return this.#change(async () => {
      const id = this.#idOf(image);
      const entry = id === undefined ? undefined : this.#options.index.get(id);
      if (!entry) throw new OciError('NotFound', `the image ${image} is not in the store`);
      const changed = change(entry);
      await this.#options.index.update([changed]);
      return this.#record(changed);
    });
  }

  #change<T>(work: () => Promise<T>): Promise<T> {
    return this.#changes.run('index', work);
  }

  async #loadConfig(id: Digest): Promise<void> {
    if (!this.#configs.has(id)) this.#configs.set(id, parseImageConfig(await this.#options.content.read(id, limits.configBytes)));
  }

  /** Runs with the lock of changes, so that no image is recorded while its layers are removed. */
  #collect(): Promise<GarbageCollection> {
    return this.#change(() => collectGarbage(this.#options));
  }

  #idOf(image: string): Digest | undefined {
    const { index } = this.#options;
    if (isDigest(image)) return index.get(image)?.id;
    const [, digits] = shortId.exec(image) ?? [];
    const named = digits?.length === 64 ? undefined : this.#idOfName(image, digits !== undefined);
    if (named !== undefined || digits === undefined) return named;
    const found = index.list().filter(({ id }) => id.startsWith(`sha256:${digits}`));
    return found.length === 1 ? found[0]?.id : undefined;
  }

  #idOfName(image: string, mayBeId: boolean): Digest | undefined {
    let reference: Reference;
    try {
      reference = parseReference(image);
    } catch (error) {
      if (mayBeId) return undefined;
      throw error;
    }
    return this.#options.index.idOf(formatReference(reference.digest === undefined ? reference : { ...reference, tag: undefined }));
  }

  #record(entry: IndexEntry): ImageRecord {
    const config = this.#configs.get(entry.id);
    if (!config) throw new OciError('NotFound', `the image ${entry.id} is not in the store`);
    return imageRecord(entry, config, this.#options.layers);
  }
}
