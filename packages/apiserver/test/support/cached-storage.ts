import { setImmediate as turn } from 'node:timers/promises';
import type { KubeObject } from '@oarlock/api/object';
import { silentLogger } from '@oarlock/primitives/logger';
import { WatchQueue } from '@oarlock/mvcc/watch-queue';
import {
  StorageError,
  type Change,
  type ChangeBatch,
  type CommitResult,
  type Entry,
  type Precondition,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import type { Clock } from '@oarlock/primitives/clock';
import { Codec, Item } from '../../src/watch-cache/item.ts';
import type { ResourceCache } from '../../src/watch-cache/resource-cache.ts';
import { storageRoot } from '../../src/storage/storage-root.ts';
import { WatchCache } from '../../src/watch-cache/watch-cache.ts';
import { Watcher } from '../../src/watch-cache/watcher.ts';

/** Accepts any bytes as an object. */
class BytesCodec extends Codec {
  override decode(): KubeObject {
    return { metadata: {} };
  }
}

const under = `${storageRoot}things/`;
const loneSurrogate = /\p{Surrogate}/u;
/** Encodes names in hexadecimal: names are sorted by UTF-16 units, keys by UTF-8 bytes, and both orders are equal in hexadecimal. */
function nameOf(key: string): string {
  if (loneSurrogate.test(key)) throw new TypeError(`not Unicode: ${JSON.stringify(key)}`);
  return `k${Buffer.from(key).toString('hex')}`;
}
const keyOf = (name: string) => Buffer.from(name.slice(1), 'hex').toString();

/** Makes values unique and records the revision that created their key, which items of the cache do not contain. */
class Tap {
  readonly #created = new WeakMap<Uint8Array, Revision>();
  readonly driver: StorageDriver;

  constructor(driver: StorageDriver) {
    const { currentRevision } = driver;
    this.driver = {
      traits: driver.traits,
      get: (key, options) => driver.get(key, options),
      range: async (options) => {
        const page = await driver.range(options);
        return { ...page, entries: page.entries.map((entry) => this.#noted(entry)) };
      },
      commit: (writes, expect) => driver.commit(writes, expect),
      watch: (prefix, options) => this.#watch(driver.watch(prefix, options)),
      requestProgress: () => driver.requestProgress(),
      ...(currentRevision !== undefined && { currentRevision: () => currentRevision.call(driver) }),
      compact: (revision) => driver.compact(revision),
    };
  }

  entry({ key, value, revision }: Item): Entry {
    return { key: keyOf(key), value, revision, created: this.#created.get(value) ?? 0 };
  }

  async *#watch(batches: AsyncIterable<ChangeBatch>): AsyncIterable<ChangeBatch> {
    for await (const { changes, revision } of batches)
      yield {
        changes: changes.map((change) => (change.type === 'put' ? { ...change, entry: this.#noted(change.entry) } : change)),
        revision,
      };
  }

  #noted(entry: Entry): Entry {
    const value = Uint8Array.prototype.slice.call(entry.value);
    this.#created.set(value, entry.created);
    return { ...entry, value };
  }
}

/** The read and watch side of the watch cache as a StorageDriver, so that it runs the storage contract suite. Writes bypass the cache. */
export class CachedStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #storage: StorageDriver;
  readonly #tap: Tap;
  readonly #cache: WatchCache;
  readonly #items: ResourceCache;
  readonly #clock: Clock;
  readonly #watches = new Set<{ reached(revision: Revision): void }>();
  #compacted: Revision = 0;

  constructor(storage: StorageDriver, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
    // persistence is a property of the driver, whose tests cover it
    this.traits = { ...storage.traits, durable: false };
    this.#tap = new Tap(storage);
    this.#cache = new WatchCache({
      storage: this.#tap.driver,
      resources: [{ name: 'things', namespaced: false, codec: new BytesCodec('v1', 'Thing') }],
      clock,
      log: silentLogger,
    });
    this.#items = this.#cache.resource('things');
  }

  start(): Promise<void> {
    return this.#cache.start();
  }
  stop(): Promise<void> {
    return this.#cache.stop();
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    const name = nameOf(key);
    const { entries, revision: read } = await this.#read(name, '', 1, revision, (item) => item.key === name);
    return { entry: entries[0], revision: read };
  }

  async range({ prefix, after, limit = Infinity, revision }: RangeOptions): Promise<Page> {
    const [from, behind] = [nameOf(prefix), after === undefined ? '' : nameOf(after)];
    return this.#read(from, behind, limit, revision, () => true);
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    const commit = await this.#storage.commit(
      writes.map((write) => ({ ...write, key: under + nameOf(write.key) })),
      expect.map((each) => ({ ...each, key: under + nameOf(each.key) })),
    );
    if (commit.ok) return commit;
    const key = keyOf(commit.key.slice(under.length));
    return { ...commit, key, current: commit.current && { ...commit.current, key } };
  }

  watch(prefix: string, { after, signal }: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const end = new AbortController();
    const queue = new WatchQueue({ bytes: Infinity, changes: Infinity }, signal, () => end.abort());
    if (!queue.ended)
      this.#follow(prefix, after, queue, end.signal).catch((error: unknown) => {
        queue.fail(error);
      });
    return queue;
  }

  async requestProgress(): Promise<Revision> {
    const revision = await this.#cache.waitUntilFresh();
    // readers first receive the frames that watchers have queued
    await turn();
    for (const watch of this.#watches) watch.reached(revision);
    return revision;
  }

  async compact(revision: Revision): Promise<void> {
    await this.#storage.compact(revision);
    this.#compacted = Math.max(this.#compacted, revision);
  }

  /** Reads at the newest revision from the cache; at earlier ones from its recent events, otherwise from storage, as lists do. */
  async #read(prefix: string, after: string, limit: number, at: Revision | undefined, matches: (item: Item) => boolean): Promise<Page> {
    const newest = await this.#cache.waitUntilFresh();
    if (at !== undefined && at > newest) throw new StorageError('FutureRevision', `the cache is at ${newest}`);
    if (at !== undefined && at < this.#compacted) throw new StorageError('Compacted', `${at} is compacted`);
    if (at === undefined) {
      const revision = this.#cache.revision;
      const { items, more } = this.#items.page(prefix, after, Math.max(limit, 1), matches);
      const page = items.slice(0, limit);
      const total = this.#items.count(prefix, after);
      return {
        entries: page.map((item) => this.#tap.entry(item)),
        revision,
        more: more || total > page.length,
        remaining: total - page.length,
      };
    }
    const past = this.#items.eventsReplayedTo(prefix, at);
    if (past === undefined) return this.#fromStorage(prefix, after, limit, at);
    const left = past.filter((item) => item.key > after && matches(item));
    const entries = left.slice(0, limit).map((item) => this.#tap.entry(item));
    return { entries, revision: at, more: left.length > entries.length, remaining: left.length - entries.length };
  }

  async #fromStorage(prefix: string, after: string, limit: number, revision: Revision): Promise<Page> {
    const page = await this.#storage.range({ prefix: under + prefix, limit, revision, ...(after !== '' && { after: under + after }) });
    return { ...page, entries: page.entries.map((entry) => ({ ...entry, key: keyOf(entry.key.slice(under.length)) })) };
  }

  async #follow(prefix: string, after: Revision, queue: WatchQueue, signal: AbortSignal): Promise<void> {
    const name = nameOf(prefix);
    const newest = await this.#cache.waitUntilFresh();
    if (after > newest) throw new StorageError('FutureRevision', `the cache is at ${newest}`);
    if (after < this.#compacted) throw new StorageError('Compacted', `${after} is compacted`);
    const past = this.#items.eventsReplayedTo('', after);
    // the API returns 410 here, after which clients list again
    if (past === undefined) return this.#past(prefix, after, queue, signal);
    const standing = new Map(past.map((item) => [item.key, this.#tap.entry(item)]));
    const watcher = new Watcher({
      selection: { namespace: '', key: undefined, indexed: undefined, matches: undefined },
      indexOf: undefined,
      viewer: undefined,
      after,
      initial: [][Symbol.iterator](),
      bookmark: undefined,
      clock: this.#clock,
      random: () => 0,
      timeoutMs: Infinity,
      signal,
      onEnd: () => this.#items.watchers.remove(watcher),
    });
    if (watcher.ended) return;
    watcher.replay(this.#items.ring.after(after));
    this.#items.watchers.add(watcher);
    let position = after;
    const watch = {
      reached: (revision: Revision) => {
        position = Math.max(position, revision);
        queue.push({ changes: [], revision: position }, 0);
      },
    };
    this.#watches.add(watch);
    void turn().then(() => watch.reached(newest));
    let waiting: Change[] = [];
    try {
      for await (const frames of watcher) {
        for (const { type, item } of frames) {
          if (!(item instanceof Item)) throw new Error('a frame without an item');
          const previous = standing.get(item.key);
          const change = changeOf(type === 'DELETED', this.#tap.entry(item), previous);
          if (type === 'DELETED') standing.delete(item.key);
          else standing.set(item.key, this.#tap.entry(item));
          if (item.key.startsWith(name)) waiting.push(change);
          else if (waiting.length === 0) continue;
        }
        // a commit is complete when the cache has reached its revision
        const last = waiting.at(-1);
        if (last === undefined) continue;
        await this.#cache.waitForRevision(revisionOf(last));
        if (this.#cache.revision < revisionOf(last)) throw new Error('the cache does not reach the end of a commit');
        const next = waiting;
        waiting = [];
        position = Math.max(position, revisionOf(last));
        queue.push({ changes: next, revision: revisionOf(last) }, 0);
      }
    } finally {
      this.#watches.delete(watch);
    }
  }

  async #past(prefix: string, after: Revision, queue: WatchQueue, signal: AbortSignal): Promise<void> {
    const entry = (stored: Entry): Entry => ({ ...stored, key: keyOf(stored.key.slice(under.length)) });
    for await (const { changes, revision } of this.#storage.watch(under + nameOf(prefix), { after, signal }))
      queue.push(
        {
          revision,
          changes: changes.map((change) =>
            change.type === 'put'
              ? { ...change, entry: entry(change.entry), previous: change.previous && entry(change.previous) }
              : { ...change, previous: entry(change.previous) },
          ),
        },
        0,
      );
  }
}

function changeOf(gone: boolean, entry: Entry, previous: Entry | undefined): Change {
  if (!gone) return { type: 'put', entry, previous };
  if (previous === undefined) throw new Error(`${entry.key} is deleted but did not exist`);
  return { type: 'delete', previous, revision: entry.revision };
}

const revisionOf = (change: Change) => (change.type === 'put' ? change.entry.revision : change.revision);
