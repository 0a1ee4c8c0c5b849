import type { Clock } from '@oarlock/primitives/clock';
import { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ContentStore } from '../content/content-store.ts';
import { isDigest, type Digest } from '../content/digest.ts';
import type { ImageConfig } from '../image-config.ts';
import type { GarbageCollection, ImageFsInfo, ImageRecord, ImageStore, LoadRequest, PullRequest } from '../image-store.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import { OciError } from '../oci-error.ts';
import { machinePlatform } from '../platform.ts';
import { formatReference, parseReference, repositoryName, type Reference } from '../reference.ts';
import { dockerCredentials, type Credentials } from '../registry/credentials.ts';
import { loadHosts } from '../registry/host-config.ts';
import type { HttpClient } from '../registry/http-client.ts';
import { RegistryClient } from '../registry/registry-client.ts';
import { imagesOfArchive, type ArchiveImage } from './archive-images.ts';
import type { ImageIndex, IndexEntry } from './image-index.ts';
import { Leases } from './leases.ts';
import { SpooledArchive } from './load-archive.ts';
import { limits } from './manifest.ts';
import { parseImageConfig } from './parse-image-config.ts';
import { credentialsForHost, pullImage } from './pull-image.ts';
import { syncFileSystem } from './sync-file-system.ts';
import { Unpacker } from './unpacker.ts';

export interface FileImageStoreOptions {
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly http: HttpClient;
  readonly content: ContentStore;
  readonly layers: LayerStore;
  readonly index: ImageIndex;
  readonly leases: Leases;
  readonly hostsDirectory: string | undefined;
  readonly dockerConfig: string | undefined;
  readonly helperPath: string;
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

  private constructor(options: FileImageStoreOptions) {
    this.#options = options;
    const { content, layers, leases, maxConcurrentDownloads: maxDownloads } = options;
    this.#unpacker = new Unpacker(content, layers, { leases, maxDownloads });
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
    await Promise.allSettled(this.#running);
    this.#options.http.close();
    await this.#options.onClose();
  }

  /** Runs an operation that `close` aborts and waits for. A full disk gives back what the operation wrote. */
  async #operation<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#closing.signal.throwIfAborted();
    const running = work(given ? AbortSignal.any([given, this.#closing.signal]) : this.#closing.signal);
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
    const { clock, log, random, http, content, hostsDirectory, index } = this.#options;
    const reference = parseReference(text);
    const hosts = await loadHosts(hostsDirectory, reference.host);
    const fromConfig = credentials ? undefined : await this.#dockerCredentials(reference.host, signal);
    const registry = new RegistryClient({
      client: http,
      clock,
      log,
      random,
      reference,
      hosts,
      credentialsFor: (host) => (credentials ? credentialsForHost(credentials, host) : host === reference.host ? fromConfig : undefined),
    });
    const known = index.get(index.idOf(formatReference({ ...reference, digest: undefined })) ?? '');
    const hold = this.#holder();
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
    const hold = this.#holder();
    try {
      const records: ImageRecord[] = [];
      const images = await imagesOfArchive(spooled, { platform, name });
      for (const image of images) hold.add(image.layers.map(({ digest }) => digest));
      for (const image of images) {
        const entry = await this.#loadImage(spooled, image, { signal, hold: hold.add, onProgress: (progress) => onProgress?.(progress) });
        records.push(await this.#store(entry));
      }
      return records;
    } finally {
      await spooled.remove();
      hold.release();
      await this.#collect();
    }
  }

  async #loadImage(
    spooled: SpooledArchive,
    image: ArchiveImage,
    {
      signal,
      hold,
      onProgress,
    }: { readonly signal: AbortSignal; hold(digests: readonly Digest[]): void; onProgress: NonNullable<PullRequest['onProgress']> },
  ): Promise<IndexEntry> {
    const { content } = this.#options;
    const blobs = image.manifests.map(({ digest }) => digest);
    hold([image.config.digest, ...blobs]);
    for (const file of [...image.manifests, image.config]) await spooled.commit(file, content);
    if (blobs.length === 0) {
      const digest = await content.write(dockerManifest(image));
      hold([digest]);
      blobs.push(digest);
    }
    const config = parseImageConfig(await content.read(image.config.digest, limits.configBytes));
    const byDigest = new Map(image.layers.map((file) => [file.digest, file]));
    const chainIds = await this.#unpacker.unpack({
      layers: image.manifest.layers,
      config,
      signal,
      onProgress,
      fetch: async ({ digest }) => {
        const file = byDigest.get(digest);
        if (file) await spooled.commit(file, content);
      },
    });
    hold(chainIds);
    const root = blobs[0] ?? '';
    return {
      id: image.config.digest,
      manifestDigest: blobs.at(-1) ?? '',
      blobs,
      chainIds,
      sizeBytes: image.layers.reduce((sum, { size }) => sum + size, image.config.size),
      tags: image.names,
      digests: image.manifests.length === 0 ? [] : image.names.map((name) => `${repositoryName(parseReference(name))}@${root}`),
      pinned: false,
    };
  }

  /** Records an image whose layers are extracted, after they are on the disk. */
  async #store(entry: IndexEntry): Promise<ImageRecord> {
    const { directory, log, index } = this.#options;
    await syncFileSystem(directory, log);
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

  #holder(): { readonly add: (digests: readonly Digest[]) => void; readonly release: () => void } {
    const releases: (() => void)[] = [];
    return {
      add: (digests) => releases.push(this.#options.leases.hold(digests)),
      release: () => {
        for (const release of releases) release();
      },
    };
  }

  async #dockerCredentials(host: string, signal: AbortSignal): Promise<Credentials | undefined> {
    const { dockerConfig: file, helperPath } = this.#options;
    return file === undefined ? undefined : dockerCredentials(host, { file, helperPath }, signal);
  }

  async #loadConfig(id: Digest): Promise<void> {
    if (!this.#configs.has(id)) this.#configs.set(id, parseImageConfig(await this.#options.content.read(id, limits.configBytes)));
  }

  /** Runs with the lock of changes, so that no image is recorded while its layers are removed. */
  #collect(): Promise<GarbageCollection> {
    return this.#change(async () => {
      const { content, layers, leases, index, snapshotLayers } = this.#options;
      const used = new Set<Digest>([
        ...index.list().flatMap(({ id, blobs, chainIds }) => [id, ...blobs, ...chainIds]),
        ...snapshotLayers(),
      ]);
      const isUsed = (digest: Digest) => used.has(digest) || leases.has(digest);
      let freedBytes = 0;
      let removedLayers = 0;
      let removedBlobs = 0;
      for (const { chainId, usedBytes } of [...layers.list()].reverse()) {
        if (isUsed(chainId)) continue;
        await layers.remove(chainId);
        freedBytes += usedBytes;
        removedLayers += 1;
      }
      for (const { digest } of content.blobs()) {
        if (isUsed(digest)) continue;
        freedBytes += await content.remove(digest);
        removedBlobs += 1;
      }
      for (const digest of await content.partials()) if (!leases.has(digest)) freedBytes += await content.removePartial(digest);
      return { freedBytes, removedLayers, removedBlobs };
    });
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

  #record({ id, manifestDigest, tags, digests, sizeBytes, chainIds, pinned }: IndexEntry): ImageRecord {
    const config = this.#configs.get(id);
    if (!config) throw new OciError('NotFound', `the image ${id} is not in the store`);
    const [user = ''] = config.user.split(':');
    const isUid = /^\d+$/.test(user);
    return {
      id,
      repoTags: tags,
      repoDigests: digests,
      sizeBytes,
      ...(isUid && { uid: Number(user) }),
      ...(!isUid && user !== '' && { username: user }),
      ...(pinned && { pinned }),
      manifestDigest,
      config,
      chainIds,
      notes: [...new Set(chainIds.flatMap((chainId) => this.#options.layers.get(chainId)?.notes ?? []))],
    };
  }
}

/** Returns the names of an image without one name. The last tag of a repository takes the names with digests along. */
function withoutName(entry: IndexEntry, reference: Reference): Pick<IndexEntry, 'tags' | 'digests'> {
  const name = formatReference(reference.digest === undefined ? reference : { ...reference, tag: undefined });
  const tags = entry.tags.filter((tag) => tag !== name);
  const repository = repositoryName(reference);
  const isLastOfRepository = !tags.some((tag) => repositoryName(parseReference(tag)) === repository);
  const digests = entry.digests.filter((digest) => digest !== name && !(isLastOfRepository && digest.startsWith(`${repository}@`)));
  return { tags, digests };
}

/** Returns a manifest for an image of an archive without manifests. */
const dockerManifest = ({ manifest: { config, layers } }: ArchiveImage): Buffer => {
  const descriptor = ({ mediaType, digest, size }: (typeof layers)[number]) => ({ mediaType, digest, size });
  return Buffer.from(JSON.stringify({ schemaVersion: 2, config: descriptor(config), layers: layers.map(descriptor) }));
};
