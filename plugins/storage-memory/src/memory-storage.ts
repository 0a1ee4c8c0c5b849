import { systemClock, type Clock } from '@oarlock/kernel/clock';
import {
  StorageError,
  type Change,
  type ChangeBatch,
  type Commit,
  type Entry,
  type Expectation,
  type Page,
  type RangeOptions,
  type Revision,
  type StorageDriver,
  type Write,
} from '@oarlock/spi/storage';
import { backlog } from './backlog.ts';
import { CommitLog } from './commit-log.ts';
import { Expiry } from './expiry.ts';
import { KeyHistory, type Version } from './key-history.ts';
import { gather, PastRanges, turn } from './past-ranges.ts';
import { behind, sortKey } from './sort-key.ts';
import { SortedIndex } from './sorted-index.ts';
import { WatchHub } from './watch-hub.ts';
import { WatchQueue } from './watch-queue.ts';

export interface MemoryStorageOptions {
  readonly clock?: Clock;
  /** Changes that stay readable and watchable; older ones are compacted on the way. */
  readonly historyChanges?: number;
  /** Bytes that these may hold beyond what stands now, roughly. */
  readonly historyBytes?: number;
  readonly maxValueBytes?: number;
  /** What may wait for the reader of one watch before it is cut off. */
  readonly watchBytes?: number;
  readonly watchChanges?: number;
}

export const defaults = {
  historyChanges: 100_000,
  historyBytes: 64 * 1024 * 1024,
  maxValueBytes: 1.5 * 1024 * 1024,
  watchBytes: 64 * 1024 * 1024,
  watchChanges: 100_000,
} as const;

/** What a change costs beside the value it replaced: its objects, its place in the log. */
const changeBytes = 256;
/** Work done at a stretch, so that nobody waits long for the event loop. */
const slice = { expired: 500, forgotten: 2_000, read: 5_000 };

/**
 * Keys in a map and in two sorted indexes: those that stand, and all that can be read, now or in the past. Each key has its versions,
 * and all versions are in one log. What is handed out is what was handed in: values are never copied.
 */
export class MemoryStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #options: Required<MemoryStorageOptions>;
  readonly #keys = new Map<string, KeyHistory>();
  readonly #live = new SortedIndex<KeyHistory>();
  readonly #all = new SortedIndex<KeyHistory>();
  readonly #log = new CommitLog();
  readonly #past = new PastRanges();
  readonly #expiry: Expiry<KeyHistory>;
  readonly #hub = new WatchHub(0);
  #revision: Revision = 0;
  #compacted: Revision = 0;
  #historyBytes = 0;
  #stopped = false;

  constructor({ clock = systemClock, ...options }: MemoryStorageOptions = {}) {
    this.#options = { ...defaults, ...options, clock };
    this.traits = { durable: false, shared: false, maxValueBytes: this.#options.maxValueBytes };
    this.#expiry = new Expiry(clock, () => this.#expire());
  }

  /** For metrics. `steps`: index entries that were looked at. */
  get stats() {
    return {
      revision: this.#revision,
      compacted: this.#compacted,
      keys: this.#live.size,
      history: this.#log.size,
      historyBytes: this.#historyBytes,
      watches: this.#hub.size,
      expiring: this.#expiry.size,
      steps: this.#live.steps + this.#all.steps + this.#hub.steps,
    };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#expiry.stop();
    this.#hub.failAll(new StorageError('Unavailable', 'the storage is stopped'));
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    this.#checkReadable(revision);
    const history = this.#keys.get(key);
    if (!history) sortKey(key);
    return { entry: revision === undefined ? history?.entry : history?.at(revision), revision: revision ?? this.#revision };
  }

  async range({ prefix, after, limit = Infinity, revision }: RangeOptions): Promise<Page> {
    this.#checkReadable(revision);
    const from = sortKey(prefix);
    const behindAfter = after === undefined ? '' : `${sortKey(after)}\u0000`;
    const start = behindAfter > from ? behindAfter : from;
    if (revision !== undefined && revision !== this.#revision) return this.#pastPage(from, start, limit, revision);
    const total = Math.max(0, this.#live.rank(behind(from)) - this.#live.rank(start));
    const count = Math.min(total, limit);
    const read = { revision: this.#revision, more: total > count, remaining: total - count };
    if (count > slice.read) {
      const long = await gather(
        this.#all,
        { start, end: behind(from), revision: read.revision, limit: count },
        () => read.revision >= this.#compacted,
      );
      if (long) return { entries: long.entries, ...read };
      return this.range({ prefix, limit, ...(after !== undefined && { after }) });
    }
    const entries: Entry[] = [];
    if (count > 0) this.#live.from(start, (history) => entries.push(history.entry as Entry) < count);
    return { entries, ...read };
  }

  async commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit> {
    this.#checkRunning();
    this.#checkWrites(writes);
    for (const { key, revision } of expect) {
      const current = this.#keys.get(key)?.entry;
      if ((current?.revision ?? 0) !== revision) return { ok: false, key, current };
    }
    return { ok: true, revision: this.#apply(writes) };
  }

  watch(prefix: string, { after, signal }: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    const { watchBytes, watchChanges } = this.#options;
    const queue = new WatchQueue({ bytes: watchBytes, changes: watchChanges }, signal, (ended) => this.#hub.remove(prefix, ended));
    if (queue.ended) return queue;
    try {
      this.#checkReadable(after);
      sortKey(prefix);
    } catch (error) {
      queue.fail(error);
      return queue;
    }
    this.#hub.add(prefix, queue);
    for (const batch of backlog(this.#log, this.#all, prefix, after)) queue.push(batch, 0, { backlog: true });
    queue.push({ changes: [], revision: this.#revision }, 0);
    return queue;
  }

  async requestProgress(): Promise<Revision> {
    this.#checkRunning();
    this.#hub.progress();
    return this.#revision;
  }

  async compact(revision: Revision): Promise<void> {
    this.#checkRunning();
    if (revision > this.#revision)
      throw new StorageError('FutureRevision', `cannot compact ${revision}: the store is at ${this.#revision}`);
    if (revision <= this.#compacted) return;
    this.#compacted = revision;
    this.#past.compact(revision);
    // what may not be read any more can be cleared away at leisure
    while (!this.#forget(slice.forgotten)) await turn();
  }

  #checkRunning(): void {
    if (this.#stopped) throw new StorageError('Unavailable', 'the storage is stopped');
  }

  #checkReadable(revision: Revision | undefined): void {
    this.#checkRunning();
    if (revision === undefined) return;
    if (revision < this.#compacted) throw this.#compactedError(revision);
    if (revision > this.#revision)
      throw new StorageError('FutureRevision', `revision ${revision} is in the future: the store is at ${this.#revision}`);
  }

  #checkWrites(writes: readonly Write[]): void {
    for (const { key, value, ttlSeconds } of writes) {
      if (!this.#keys.has(key)) sortKey(key);
      if (value !== null && value.length > this.#options.maxValueBytes) {
        throw new StorageError(
          'TooLarge',
          `the value of ${JSON.stringify(key)} has ${value.length} bytes, at most ${this.#options.maxValueBytes} are taken`,
        );
      }
      if (ttlSeconds !== undefined && (!Number.isInteger(ttlSeconds) || ttlSeconds < 1))
        throw new TypeError(`not a time to live in whole seconds: ${ttlSeconds}`);
    }
    if (writes.length > 1 && new Set(writes.map((write) => write.key)).size < writes.length)
      throw new TypeError('a commit writes a key twice');
  }

  /** Returns the revision after it: a new one if anything was written. */
  #apply(writes: readonly Write[]): Revision {
    const revision = this.#revision + 1;
    let written = false;
    for (const { key, value, ttlSeconds } of writes) {
      if (value === null) {
        written = this.#delete(key, revision) || written;
      } else {
        this.#put(key, value, ttlSeconds, revision);
        written = true;
      }
    }
    if (!written) return this.#revision;
    this.#revision = revision;
    this.#hub.committed(revision);
    this.#trim();
    return revision;
  }

  #put(key: string, value: Uint8Array, ttlSeconds: number | undefined, revision: Revision): void {
    let history = this.#keys.get(key);
    if (!history) {
      history = new KeyHistory(key, sortKey(key));
      this.#keys.set(key, history);
      this.#all.set(history.sortKey, history);
    }
    const previous = history.entry;
    if (!previous) this.#live.set(history.sortKey, history);
    const entry: Entry = { key, value, revision, created: previous ? previous.created : revision };
    this.#record({ history, revision, entry, change: { type: 'put', entry, previous }, replaced: previous ? previous.value.length : 0 });
    if (ttlSeconds !== undefined) this.#expiry.set(history, ttlSeconds);
    else this.#expiry.clear(history);
  }

  #delete(key: string, revision: Revision): boolean {
    const history = this.#keys.get(key);
    const previous = history?.entry;
    if (!history || !previous) return false;
    this.#live.delete(history.sortKey);
    this.#record({ history, revision, entry: undefined, change: { type: 'delete', previous, revision }, replaced: previous.value.length });
    this.#expiry.clear(history);
    return true;
  }

  #record(version: Version): void {
    version.history.add(version);
    this.#log.push(version);
    this.#historyBytes += version.replaced + changeBytes;
    this.#hub.publish(version.history.key, version.change as Change);
  }

  /** Compacts the oldest commits when the history has grown too long. Each commit pays for about one. */
  #trim(): void {
    const { historyChanges, historyBytes } = this.#options;
    while (this.#log.size > historyChanges || this.#historyBytes > historyBytes) {
      const oldest = this.#log.oldest;
      if (!oldest) return;
      if (oldest.revision > this.#compacted) {
        this.#compacted = oldest.revision;
        this.#past.compact(oldest.revision);
      }
      this.#forget(1);
    }
  }

  /** Clears away compacted versions, at most so many. Returns whether none is left. */
  #forget(limit: number): boolean {
    for (let done = 0; done < limit; done += 1) {
      const version = this.#log.oldest;
      if (!version || version.revision > this.#compacted) return true;
      this.#log.shift();
      this.#historyBytes -= version.replaced + changeBytes;
      version.change = undefined;
      const { history } = version;
      history.forgetBefore(version);
      if (!history.forgotten) continue;
      this.#all.delete(history.sortKey);
      this.#keys.delete(history.key);
    }
    return false;
  }

  async #pastPage(from: string, start: string, limit: number, revision: Revision): Promise<Page> {
    const range = await this.#past.get(from, revision, () =>
      gather(this.#all, { start: from, end: behind(from), revision, limit: Infinity }, () => revision >= this.#compacted),
    );
    if (!range) throw this.#compactedError(revision);
    const { keys, entries } = range;
    let low = 0;
    for (let high = keys.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((keys[middle] as string) < start) low = middle + 1;
      else high = middle;
    }
    const page = entries.slice(low, low + Math.min(limit, entries.length));
    const remaining = entries.length - low - page.length;
    return { entries: page, revision, more: remaining > 0, remaining };
  }

  #compactedError(revision: Revision): StorageError {
    return new StorageError('Compacted', `revision ${revision} is compacted: the oldest one is ${this.#compacted}`);
  }

  #expire(): void {
    if (this.#stopped) return;
    const due = this.#expiry.take(slice.expired);
    this.#apply(due.map(({ key }) => ({ key, value: null })));
  }
}
