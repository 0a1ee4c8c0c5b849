import { setImmediate as turn } from 'node:timers/promises';
import { expired } from '@oarlock/api/status';
import type { Timer } from '@oarlock/primitives/clock';
import { StorageError, type Change, type ChangeBatch } from '@oarlock/spi/storage';
import { toStatusError } from '../storage/storage-error.ts';
import { EventRingMemory } from './internal/event-ring-memory.ts';
import { PendingWrites } from './pending-writes.ts';
import { RevisionProgress } from './internal/progress.ts';
import { StorageRevision } from './internal/storage-revision.ts';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import { loadObjects } from './internal/load-objects.ts';
import { readEntries } from './internal/range-pages.ts';
import { WatcherMemory } from './internal/watcher-memory.ts';
import { ResourceCaches } from './internal/resource-caches.ts';
import type { CachedResource, ResourceCache } from './resource-cache.ts';
import { RevisionSpanContexts } from './revision-span-contexts.ts';
import { storageRoot } from '../storage/storage-root.ts';
import { watchCacheLimits, type WatchCacheLimits } from './watch-cache-limits.ts';
import type { Caller, WatchCacheMemory, WatchCacheOptions } from './watch-cache-options.ts';

/** The work after which the cache yields to the event loop, in milliseconds and in bytes of changed objects, so that watches can write. */
const sliceMs = 5;
const sliceBytes = 1024 * 1024;
const minRetryDelayMs = 100;
const maxRetryDelayMs = 5_000;
const trimIntervalMs = 60_000;

/**
 * A cache of all stored objects, updated by one watch of storage for all resources (Cacher upstream). A write may become visible in the cache after
 * storage has acknowledged it; consistent reads call `waitUntilFresh` first.
 */
export class WatchCache {
  readonly limits: WatchCacheLimits;
  readonly pendingWrites: PendingWrites;
  /** The limit of the events that wait for watchers. */
  readonly watcherMemory: WatcherMemory;
  /** The limit of the event rings. */
  readonly ringMemory: EventRingMemory;
  readonly spanContexts = new RevisionSpanContexts();
  readonly #options: WatchCacheOptions;
  readonly #resources: ResourceCaches;
  readonly #progress: RevisionProgress;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #trimTimer: Timer | undefined;
  readonly #storageRevision: StorageRevision;
  readonly #loaded = deferred();
  #ready = false;
  #loading = false;
  #disconnected = false;

  constructor(options: WatchCacheOptions) {
    this.#options = options;
    this.#storageRevision = new StorageRevision(options.storage);
    this.limits = options.limits ?? watchCacheLimits;
    this.pendingWrites = new PendingWrites(this.limits.pendingWriteBytes);
    this.watcherMemory = new WatcherMemory(this.limits.totalWatcherBytes);
    this.ringMemory = new EventRingMemory(this.limits.totalRingBytes);
    this.#resources = new ResourceCaches(options.log, { ringBytes: this.limits.ringBytes, ringMemory: this.ringMemory });
    for (const resource of options.resources) this.#resources.add(resource);
    this.#progress = new RevisionProgress(options.clock);
    this.#loaded.promise.catch(() => undefined);
  }

  /** The newest revision up to which the cache contains all changes. */
  get revision(): number {
    return this.#progress.revision;
  }
  /** True if all objects are loaded and the watch of storage is connected. */
  get ready(): boolean {
    return this.#ready && !this.#disconnected;
  }
  /** Resolves when all objects have been loaded for the first time. */
  whenReady(): Promise<void> {
    return this.#loaded.promise;
  }

  resource(name: string): ResourceCache {
    const cache = this.#resources.get(name);
    if (cache === undefined) throw new Error(`the watch cache has no resource ${name}`);
    return cache;
  }

  /** The size and the limit of the buffers that clients can fill. */
  get memory(): WatchCacheMemory {
    return { rings: this.ringMemory, watchers: this.watcherMemory, pendingWrites: this.pendingWrites };
  }

  /** Returns the caches of all resources. */
  resources(): Iterable<ResourceCache> {
    return this.#resources.values();
  }

  /** Adds a resource and loads its stored objects in the background. For a known resource, changes only how it is stored. */
  add(resource: CachedResource): ResourceCache {
    const known = this.#resources.get(resource.name);
    if (known !== undefined) {
      known.setResource(resource);
      return known;
    }
    const cache = this.#resources.add(resource);
    // a load in progress includes the new resource
    if (this.#ready && !this.#loading) cache.beginInitialLoad(this.#loadAddedResource(cache));
    return cache;
  }

  /** Removes the cache of a resource and ends its watches. */
  remove(name: string): void {
    this.#resources.remove(name);
  }

  /** Reads the stored objects again that could not be decrypted or decoded. @throws StorageError if storage fails */
  readonly rereadUnreadable = (): Promise<void> => this.#resources.rereadUnreadable(this.#options.storage, () => this.revision);

  /** Loads the stored objects of an added resource, with retries until the load succeeds. */
  async #loadAddedResource(cache: ResourceCache): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    const prefix = `${storageRoot}${cache.resource.name}/`;
    for (let wait = minRetryDelayMs; !signal.aborted && this.#resources.get(cache.resource.name) === cache; ) {
      try {
        const { entries, revision } = await readEntries(this.#options.storage, prefix);
        const decoded = this.#resources.decodeAll(cache, prefix, entries);
        if (!(await this.waitForRevision(revision, signal))) continue;
        cache.completeInitialLoad(decoded, this.revision);
        return;
      } catch (error) {
        log.warn({ resource: cache.resource.name, error: String(error), retryMs: wait }, 'loading the objects of a resource failed');
        await clock.sleep(wait, signal).catch(() => undefined);
        wait = Math.min(wait * 2, maxRetryDelayMs);
      }
    }
  }

  /** Loads all objects, and watches storage until `stop` is called. Resolves when the objects are loaded; retries while storage is unavailable. */
  async start(signal?: AbortSignal): Promise<void> {
    const abort = () => this.#stop.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort, { once: true });
    this.#running = this.#run();
    this.#trim();
    try {
      await this.#loaded.promise;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the API server is stopping'));
    this.#trimTimer?.cancel();
    this.#resources.endWatchers(undefined);
    await this.#running;
  }

  /**
   * Returns the cache's revision when the cache contains all writes that storage acknowledged before the call. Returns a promise only if it has to
   * wait for storage or for the watch of storage.
   * @throws StatusError `Timeout` if storage does not respond in time
   */
  waitUntilFresh(caller?: Caller): number | Promise<number> {
    return this.#storageRevision.isReachedBy(this.revision) ? this.revision : this.#waitForStorage(caller);
  }

  async #waitForStorage(caller: Caller | undefined): Promise<number> {
    const revision = await this.#storageRevision.request();
    if (revision > this.revision && !(await this.waitForRevision(revision, caller?.signal)))
      throw toStatusError(new StorageError('Unavailable', `the watch of storage is behind revision ${revision}`));
    return this.revision;
  }

  /** Resolves to true when the cache has reached a revision, or to false after the timeout. */
  waitForRevision(revision: number, signal?: AbortSignal, timeoutMs = 3_000): Promise<boolean> {
    return this.#progress.waitFor(revision, timeoutMs, signal);
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    let wait = minRetryDelayMs;
    let reload = true;
    while (!signal.aborted) {
      try {
        if (reload) {
          this.#loading = true;
          await this.#load();
          reload = false;
        }
        await this.#watchStorage(() => {
          wait = minRetryDelayMs;
        });
      } catch (error) {
        if (signal.aborted) break;
        this.#disconnected = true;
        reload ||= error instanceof StorageError && (error.code === 'Compacted' || error.code === 'FutureRevision');
        if (!(error instanceof StorageError)) reload = true;
        log.warn({ error: String(error), reload, retryMs: wait }, 'the watch of storage was interrupted');
        if (reload) this.#resources.endWatchers(expired('too old resource version: the history of the store was compacted'));
        await clock.sleep(wait, signal).catch(() => undefined);
        wait = Math.min(wait * 2, maxRetryDelayMs);
      }
    }
    this.#loaded.reject(signal.reason);
  }

  /** Loads all objects at one revision into new indexes, then replaces the contents of all caches at once. */
  async #load(): Promise<void> {
    const { storage, clock, onReset, onUnownedKey } = this.#options;
    const { signal } = this.#stop;
    const revision = await this.#loadFirst();
    const {
      staged,
      unownedKeys,
      revision: loadedRevision,
    } = await loadObjects({ storage, caches: this.#resources, clock, signal }, revision);
    onReset?.();
    for (const key of unownedKeys) onUnownedKey?.(key, true);
    for (const [name, contents] of staged) this.#resources.get(name)?.reset(contents, loadedRevision);
    this.pendingWrites.forget(loadedRevision);
    this.#progress.advance(loadedRevision);
    this.#ready = true;
    this.#loading = false;
    this.#loaded.resolve();
  }

  /**
   * Loads the objects that define resources. Returns the revision of this load, at which the other objects must be read; undefined if there are
   * none.
   */
  async #loadFirst(): Promise<number | undefined> {
    const { loadFirst } = this.#options;
    if (loadFirst === undefined) return undefined;
    const { entries, revision } = await readEntries(this.#options.storage, loadFirst.prefix);
    const cache = this.resource(loadFirst.name);
    loadFirst.read(this.#resources.decodeAll(cache, loadFirst.prefix, entries).items);
    return revision;
  }

  async #watchStorage(onProgress: () => void): Promise<void> {
    const { storage } = this.#options;
    const { signal } = this.#stop;
    for await (const batch of storage.watch(storageRoot, { after: this.revision, signal })) {
      this.#disconnected = false;
      onProgress();
      await this.#apply(batch);
    }
    if (!signal.aborted) throw new StorageError('Unavailable', 'the watch of storage ended');
  }

  async #apply({ changes, revision }: ChangeBatch): Promise<void> {
    const { clock } = this.#options;
    const now = clock.now();
    let pauseAt = clock.monotonic() + sliceMs;
    let bytes = 0;
    for (let i = 0; i < changes.length; i++) {
      const change = changes[i] as Change;
      this.#applyChange(change, now);
      bytes += change.type === 'put' ? change.entry.value.length : 0;
      const next = changes[i + 1];
      // watchers receive the changes of one commit together
      if (next === undefined || revisionOfChange(next) === revisionOfChange(change)) continue;
      if (bytes < sliceBytes && ((i & 31) !== 31 || clock.monotonic() < pauseAt)) continue;
      this.#progress.advance(revisionOfChange(change));
      await turn();
      pauseAt = clock.monotonic() + sliceMs;
      bytes = 0;
    }
    this.#progress.advance(revision);
  }

  #applyChange(change: Change, now: number): void {
    const storageKey = change.type === 'put' ? change.entry.key : change.previous.key;
    const { cache, name } = this.#resources.locate(storageKey);
    const revision = revisionOfChange(change);
    const value = change.type === 'put' ? change.entry.value : null;
    if (cache === undefined) {
      // the resource may have been removed during the write
      this.pendingWrites.take(storageKey, value, revision);
      this.#options.onUnownedKey?.(storageKey, change.type === 'put');
      return;
    }
    const own = this.pendingWrites.take(storageKey, value, revision);
    this.spanContexts.set(revision, own?.spanContext);
    const decoded = change.type === 'delete' ? undefined : (own?.item(revision) ?? this.#resources.decode(cache, name, change.entry));
    cache.apply(name, decoded, { revision, spanContext: own?.spanContext, now });
    this.watcherMemory.enforce(this.#options.clock.monotonic());
  }

  #trim(): void {
    const { clock } = this.#options;
    this.#trimTimer = clock.after(trimIntervalMs, () => {
      this.#resources.trim(clock.now());
      if (!this.#stop.signal.aborted) this.#trim();
    });
  }
}

const revisionOfChange = (change: Change): number => (change.type === 'put' ? change.entry.revision : change.revision);
