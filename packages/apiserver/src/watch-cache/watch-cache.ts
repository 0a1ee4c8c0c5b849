import { setImmediate as turn } from 'node:timers/promises';
import { expired } from '@oarlock/api/status';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { StorageError, type Change, type ChangeBatch, type Entry, type StorageDriver } from '@oarlock/spi/storage';
import { toStatusError } from '../storage/storage-error.ts';
import { RevisionSpanContexts } from './causes.ts';
import type { Item } from './item.ts';
import { PendingWrites } from './pending-writes.ts';
import { RevisionProgress } from './internal/progress.ts';
import { ObjectIndex, ResourceCache, type CachedResource } from './resource-cache.ts';

/** Below it lives everything the API server stores. */
export const storageRoot = '/registry/';
const pageSize = 500;
/** The loop is given back after so many milliseconds of work. */
const sliceMs = 5;
const minRetryDelayMs = 100;
const maxRetryDelayMs = 5_000;
const trimIntervalMs = 60_000;

export interface WatchCacheOptions {
  readonly storage: StorageDriver;
  readonly resources: readonly CachedResource[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Changes under the root that belong to no resource. */
  readonly onUnownedKey?: (key: string, present: boolean) => void;
  /** Everything is about to be loaded anew. */
  readonly onReset?: () => void;
  /** What is stored under a prefix is read first: it says which resources there are, besides the given ones. */
  readonly loadFirst?: { readonly prefix: string; readonly name: string; read(items: readonly Item[]): void };
}

/** Who asks, and until when. The signal is looked at only by those who have to wait: most need none made. */
export interface Caller {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Everything that is stored, in memory, kept up by one watch of storage for all resources. Reads are as new as `fresh` says; what storage
 * acknowledged to this process may arrive here a moment later.
 */
export class WatchCache {
  readonly pendingWrites = new PendingWrites();
  readonly spanContexts = new RevisionSpanContexts();
  readonly #options: WatchCacheOptions;
  readonly #resources: Map<string, ResourceCache>;
  readonly #progress: RevisionProgress;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #trimTimer: Timer | undefined;
  #revisionRequest: Promise<number> | undefined;
  #nextRevisionRequest: Promise<number> | undefined;
  readonly #loaded = deferred();
  #ready = false;
  #loading = false;
  #disconnected = false;

  constructor(options: WatchCacheOptions) {
    this.#options = options;
    this.#resources = new Map(options.resources.map((resource) => [resource.name, new ResourceCache(resource)]));
    this.#progress = new RevisionProgress(options.clock);
    this.#loaded.promise.catch(() => undefined);
  }

  /** Of the newest commit whose changes are all here. */
  get revision(): number {
    return this.#progress.revision;
  }
  /** Everything has been loaded, and changes are coming in. */
  get ready(): boolean {
    return this.#ready && !this.#disconnected;
  }
  /** Resolves when everything has been loaded once. */
  whenReady(): Promise<void> {
    return this.#loaded.promise;
  }

  resource(name: string): ResourceCache {
    const cache = this.#resources.get(name);
    if (cache === undefined) throw new Error(`the watch cache has no resource ${name}`);
    return cache;
  }

  /** Every resource that is followed. */
  resources(): Iterable<ResourceCache> {
    return this.#resources.values();
  }

  /** Follows another resource from now on, or one that is followed already in another way of storing it. */
  add(resource: CachedResource): ResourceCache {
    const known = this.#resources.get(resource.name);
    if (known !== undefined) {
      known.setResource(resource);
      return known;
    }
    const cache = new ResourceCache(resource);
    this.#resources.set(resource.name, cache);
    // what is being loaded holds it, too
    if (this.#ready && !this.#loading) cache.beginInitialLoad(this.#loadAddedResource(cache));
    return cache;
  }

  /** Forgets a resource. Its watches end. */
  remove(name: string): void {
    const cache = this.#resources.get(name);
    if (cache === undefined) return;
    this.#resources.delete(name);
    cache.endWatchers();
  }

  /** Reads what was stored before anybody followed it. Tries again until it succeeds. */
  async #loadAddedResource(cache: ResourceCache): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    const prefix = `${storageRoot}${cache.resource.name}/`;
    for (let wait = minRetryDelayMs; !signal.aborted && this.#resources.get(cache.resource.name) === cache; ) {
      try {
        const { entries, revision } = await this.#readEntries(prefix);
        const items = entries.flatMap((entry) => this.#parse(cache, entry.key.slice(prefix.length), entry) ?? []);
        if (!(await this.waitForRevision(revision, signal))) continue;
        cache.completeInitialLoad(items, this.revision);
        return;
      } catch (error) {
        log.warn({ resource: cache.resource.name, error: String(error), retryMs: wait }, 'a resource could not be read');
        await clock.sleep(wait, signal).catch(() => undefined);
        wait = Math.min(wait * 2, maxRetryDelayMs);
      }
    }
  }

  async #readEntries(prefix: string): Promise<{ readonly entries: readonly Entry[]; readonly revision: number }> {
    const entries: Entry[] = [];
    let revision: number | undefined;
    let after: string | undefined;
    for (;;) {
      const page = await this.#options.storage.range({
        prefix,
        limit: pageSize,
        ...(revision !== undefined && { revision }),
        ...(after !== undefined && { after }),
      });
      revision ??= page.revision;
      entries.push(...page.entries);
      after = page.entries.at(-1)?.key;
      if (!page.more || after === undefined) return { entries, revision };
    }
  }

  /** Loads and follows until `stop`. Resolves when everything was loaded; retries while storage is not there. */
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
    this.#endWatchers(undefined);
    await this.#running;
  }

  /** Resolves when everything that was acknowledged before the call is here. @throws StatusError when storage does not answer in time */
  async waitUntilFresh(asker?: Caller): Promise<number> {
    const revision = await this.#currentRevision();
    if (revision > this.revision && !(await this.waitForRevision(revision, asker?.signal)))
      throw toStatusError(new StorageError('Unavailable', `the watch of storage is behind revision ${revision}`));
    return this.revision;
  }

  /** Whether the cache came to a revision, waiting for it for a moment. */
  waitForRevision(revision: number, signal?: AbortSignal, timeoutMs = 3_000): Promise<boolean> {
    return this.#progress.waitFor(revision, timeoutMs, signal);
  }

  /** Asks storage at most twice at a time: who comes while it is asked shares the next question. */
  #currentRevision(): Promise<number> {
    if (this.#revisionRequest === undefined) return (this.#revisionRequest = this.#fetchRevision());
    return (this.#nextRevisionRequest ??= this.#revisionRequest.then(
      () => this.#fetchRevisionAgain(),
      () => this.#fetchRevisionAgain(),
    ));
  }

  #fetchRevisionAgain(): Promise<number> {
    this.#nextRevisionRequest = undefined;
    return (this.#revisionRequest = this.#fetchRevision());
  }

  async #fetchRevision(): Promise<number> {
    try {
      return await this.#options.storage.requestProgress();
    } catch (error) {
      throw toStatusError(error);
    } finally {
      this.#revisionRequest = undefined;
    }
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
        log.warn({ error: String(error), reload, retryMs: wait }, 'the watch of storage broke off');
        if (reload) this.#endWatchers(expired('too old resource version: the history of the store is gone'));
        await clock.sleep(wait, signal).catch(() => undefined);
        wait = Math.min(wait * 2, maxRetryDelayMs);
      }
    }
    this.#loaded.reject(signal.reason);
  }

  /** Reads everything at one revision, aside, and puts it in place at once. */
  async #load(): Promise<void> {
    const { storage, clock, onReset, onUnownedKey: onOther, loadFirst: first } = this.#options;
    const { signal } = this.#stop;
    let revision: number | undefined;
    if (first !== undefined) {
      const found = await this.#readEntries(first.prefix);
      revision = found.revision;
      const cache = this.resource(first.name);
      first.read(found.entries.flatMap((entry) => this.#parse(cache, entry.key.slice(first.prefix.length), entry) ?? []));
    }
    const staged = new Map([...this.#resources].map(([name, { resource }]) => [name, new ObjectIndex(resource)]));
    const others: string[] = [];
    let after: string | undefined;
    let began = clock.monotonic();
    for (;;) {
      const page = await storage.range({
        prefix: storageRoot,
        limit: pageSize,
        ...(revision !== undefined && { revision }),
        ...(after !== undefined && { after }),
      });
      signal.throwIfAborted();
      revision ??= page.revision;
      for (const entry of page.entries) {
        const { cache, name } = this.#parseStorageKey(entry.key);
        if (cache === undefined) others.push(entry.key);
        else {
          const item = this.#parse(cache, name, entry);
          if (item !== undefined) staged.get(cache.resource.name)?.set(name, undefined, item);
        }
        if (clock.monotonic() - began > sliceMs) {
          await turn();
          began = clock.monotonic();
        }
      }
      after = page.entries.at(-1)?.key;
      if (!page.more || after === undefined) break;
    }
    onReset?.();
    for (const key of others) onOther?.(key, true);
    for (const [name, contents] of staged) this.#resources.get(name)?.reset(contents, revision);
    this.pendingWrites.forget(revision);
    this.#progress.advance(revision);
    this.#ready = true;
    this.#loading = false;
    this.#loaded.resolve();
  }

  /** What stands in storage but is no object is left out, and told to whoever runs the server. */
  #parse(cache: ResourceCache, name: string, { key, value, revision }: Entry): Item | undefined {
    try {
      return cache.resource.codec.parse(name, value, revision);
    } catch (error) {
      this.#options.log.error({ key, error: String(error) }, 'a stored value is no object');
      return undefined;
    }
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
    const began = clock.monotonic();
    const now = clock.now();
    let pause = began + sliceMs;
    for (let i = 0; i < changes.length; i++) {
      const change = changes[i] as Change;
      this.#applyChange(change, now);
      if ((i & 31) !== 31 || clock.monotonic() < pause) continue;
      const next = changes[i + 1];
      const at = revisionOfChange(change);
      if (next === undefined || revisionOfChange(next) > at) this.#progress.advance(at);
      await turn();
      pause = clock.monotonic() + sliceMs;
    }
    this.#progress.advance(revision);
  }

  #applyChange(change: Change, now: number): void {
    const storageKey = change.type === 'put' ? change.entry.key : change.previous.key;
    const { cache, name } = this.#parseStorageKey(storageKey);
    const revision = revisionOfChange(change);
    const value = change.type === 'put' ? change.entry.value : null;
    if (cache === undefined) {
      // its resource may have gone while it was on its way
      this.pendingWrites.take(storageKey, value, revision);
      this.#options.onUnownedKey?.(storageKey, change.type === 'put');
      return;
    }
    const own = this.pendingWrites.take(storageKey, value, revision);
    this.spanContexts.set(revision, own?.spanContext);
    const item = change.type === 'delete' ? undefined : (own?.item(revision) ?? this.#parse(cache, name, change.entry));
    if (item === undefined) cache.delete(name, revision, own?.spanContext, now);
    else cache.put(item, own?.spanContext, now);
  }

  /** `/registry/pods/default/a` -> pods, `default/a`. */
  #parseStorageKey(storageKey: string): { readonly cache: ResourceCache | undefined; readonly name: string } {
    const slash = storageKey.indexOf('/', storageRoot.length);
    return { cache: this.#resources.get(storageKey.slice(storageRoot.length, slash)), name: storageKey.slice(slash + 1) };
  }

  #endWatchers(error: Error | undefined): void {
    for (const { watchers } of this.#resources.values()) {
      for (const watcher of [...watchers]) {
        if (error === undefined) watcher.end();
        else watcher.fail(error);
      }
    }
  }

  #trim(): void {
    const { clock } = this.#options;
    this.#trimTimer = clock.after(trimIntervalMs, () => {
      const now = clock.now();
      for (const { ring } of this.#resources.values()) ring.trim(now);
      if (!this.#stop.signal.aborted) this.#trim();
    });
  }
}

function deferred() {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<void>((done, fail) => {
    resolve = done;
    reject = fail;
  });
  return { promise, resolve, reject };
}

const revisionOfChange = (change: Change) => (change.type === 'put' ? change.entry.revision : change.revision);
