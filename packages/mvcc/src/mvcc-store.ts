import type { Clock } from '@oarlock/primitives/clock';
import {
  StorageError,
  type Change,
  type ChangeBatch,
  type Entry,
  type Page,
  type RangeOptions,
  type Revision,
  type Write,
} from '@oarlock/spi/storage';
import { readBacklog } from './internal/backlog.ts';
import { ChangeBroadcaster } from './internal/change-broadcaster.ts';
import { ExpiryQueue } from './internal/expiry-queue.ts';
import { KeyHistory, type Version } from './internal/key-history.ts';
import type { MvccLimits } from './mvcc-limits.ts';
import { gather, pageOf } from './internal/historical-ranges.ts';
import { VersionHistory } from './internal/version-history.ts';
import { endOfPrefix, sortKey } from './internal/sort-key.ts';
import { BTree } from '@oarlock/primitives/collections/btree';
import { WatchQueue } from './watch-queue.ts';

export interface MvccOptions extends MvccLimits {
  readonly clock: Clock;
  /**
   * Reports expired keys, which the owner of the store must delete with a commit. Each key is reported once; if the commit fails, the owner
   * calls `postponeExpiry`.
   */
  onExpired(due: readonly ExpiredKey[]): void;
}
/** An expired key and the revision of its entry. If the key has another revision now, it was written again and must not be deleted. */
export interface ExpiredKey {
  readonly key: string;
  readonly revision: Revision;
}

/** An entry and the remaining time to live of the key. */
export interface CurrentEntry {
  readonly entry: Entry;
  /** Remaining time to live in seconds; undefined if the key does not expire. */
  readonly secondsLeft: number | undefined;
}

/** Limits of synchronous work per turn of the event loop. */
const slice = { expired: 500, read: 5_000 };

/**
 * An in-memory MVCC store with watches (`mvcc.watchableStore` in etcd).
 *
 * Keys are in a map and in two sorted indexes: existing keys, and all keys that are readable now or at a past revision. Each key has a list of
 * versions, and all versions are in one log. Values are never copied.
 *
 * The store does not decide on writes: the owner assigns a revision to each commit and calls `apply` when the commit becomes visible.
 */
export class MvccStore {
  readonly #options: MvccOptions;
  readonly #keys = new Map<string, KeyHistory>();
  readonly #live = new BTree<KeyHistory>();
  readonly #all = new BTree<KeyHistory>();
  readonly #past: VersionHistory;
  readonly #expiry: ExpiryQueue<KeyHistory>;
  readonly #hub = new ChangeBroadcaster(0);
  #revision: Revision = 0;
  #failure: StorageError | undefined;

  constructor(options: MvccOptions) {
    this.#options = options;
    this.#past = new VersionHistory(options, (history) => {
      this.#all.delete(history.sortKey);
      this.#keys.delete(history.key);
    });
    this.#expiry = new ExpiryQueue(options.clock, () => this.#expire());
  }

  get revision(): Revision {
    return this.#revision;
  }
  /** Returns the newest revision. @throws StorageError the failure of the store */
  currentRevision(): Revision {
    this.checkRunning();
    return this.#revision;
  }
  /** The oldest revision that can be read. */
  get compacted(): Revision {
    return this.#past.compacted;
  }

  /** Statistics for metrics. `steps` is the number of index entries visited. */
  get stats() {
    return {
      revision: this.#revision,
      compacted: this.#past.compacted,
      keys: this.#live.size,
      history: this.#past.log.size,
      historyBytes: this.#past.bytes,
      watches: this.#hub.size,
      expiring: this.#expiry.size,
      steps: this.#live.steps + this.#all.steps + this.#hub.steps,
    };
  }

  /** Fails all watches and all later calls with `error`. */
  fail(error: StorageError): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#expiry.stop();
    this.#hub.failAll(error);
  }

  /** @throws the error that `fail` was called with */
  checkRunning(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Returns the current entry of a key, or undefined if the key does not exist. */
  currentEntry(key: string): Entry | undefined {
    return this.#keys.get(key)?.entry;
  }

  /** Implements `StorageDriver.get`. */
  get(key: string, revision?: Revision): { entry: Entry | undefined; revision: Revision } {
    this.#checkReadable(revision);
    const history = this.#keys.get(key);
    if (!history) sortKey(key);
    return { entry: revision === undefined ? history?.entry : history?.at(revision), revision: revision ?? this.#revision };
  }

  /** Implements `StorageDriver.range`. */
  async range({ prefix, after, limit = Infinity, revision }: RangeOptions): Promise<Page> {
    this.#checkReadable(revision);
    const from = sortKey(prefix);
    const behindAfter = after === undefined ? '' : `${sortKey(after)}\u0000`;
    const start = behindAfter > from ? behindAfter : from;
    if (revision !== undefined && revision !== this.#revision) return this.#pastPage(from, start, limit, revision);
    const total = Math.max(0, this.#live.rank(endOfPrefix(from)) - this.#live.rank(start));
    const count = Math.min(total, limit);
    const read = { revision: this.#revision, more: total > count, remaining: total - count };
    if (count > slice.read) {
      const long = await gather(
        this.#all,
        { start, end: endOfPrefix(from), revision: read.revision, limit: count },
        () => read.revision >= this.#past.compacted,
      );
      if (long) return { entries: long.entries, ...read };
      return this.range({ prefix, limit, ...(after !== undefined && { after }) });
    }
    const entries: Entry[] = [];
    if (count > 0) this.#live.ascendFrom(start, (history) => entries.push(history.entry as Entry) < count);
    return { entries, ...read };
  }

  /** Implements `StorageDriver.watch`. */
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
    for (const batch of readBacklog(this.#past.log, this.#all, prefix, after)) queue.push(batch, 0, { backlog: true });
    queue.push({ changes: [], revision: this.#revision }, 0);
    return queue;
  }

  /** Sends a progress notification to every watch. */
  progress(): Revision {
    this.checkRunning();
    this.#hub.progress();
    return this.#revision;
  }

  /**
   * Applies a commit at `revision`. Returns false if the commit changed nothing; `revision` is then unused. Times to live may be fractions of a
   * second.
   */
  apply(writes: readonly Write[], revision: Revision): boolean {
    let changed = false;
    for (const { key, value, ttlSeconds } of writes) {
      if (value === null) {
        changed = this.#delete(key, revision) || changed;
      } else {
        this.#put(key, value, ttlSeconds, revision);
        changed = true;
      }
    }
    if (!changed) return false;
    this.#revision = revision;
    this.#hub.advance(revision);
    this.#past.trim();
    return true;
  }

  /** Sets the current revision without a commit, as if all earlier revisions had been compacted. */
  skipTo(revision: Revision): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    this.#past.compactTo(revision);
    this.#hub.advance(revision);
    this.#hub.progress();
    void this.#past.sweep();
  }

  /** Restores one entry of a snapshot. The caller restores all entries in key order, each key once, and then calls `skipTo`. */
  restore(entry: Entry, secondsLeft: number | undefined): void {
    const history = this.#history(entry.key);
    history.add({ history, revision: entry.revision, entry, change: undefined, replacedBytes: 0 });
    this.#live.set(history.sortKey, history);
    if (secondsLeft !== undefined) this.#expiry.set(history, secondsLeft);
  }

  /** Reports a key as expired again after `seconds`. Does nothing if the key was written in the meantime. */
  postponeExpiry({ key, revision }: ExpiredKey, seconds: number): void {
    const history = this.#keys.get(key);
    if (history?.entry?.revision === revision) this.#expiry.set(history, seconds);
  }

  /**
   * Returns true if `compact` would have an effect.
   * @throws StorageError `FutureRevision` if the revision does not exist yet; the error of `fail` if the store has failed
   */
  compactable(revision: Revision): boolean {
    this.checkRunning();
    if (revision > this.#revision)
      throw new StorageError('FutureRevision', `cannot compact ${revision}: the store is at ${this.#revision}`);
    return revision > this.#past.compacted;
  }

  /** Compacts the store. Reads at older revisions fail immediately; the promise resolves when the older versions are removed. */
  async compact(revision: Revision): Promise<void> {
    if (revision <= this.#past.compacted) return;
    this.#past.compactTo(revision);
    await this.#past.sweep();
  }

  /**
   * Keeps the state at the oldest readable revision, even if that revision is compacted, until `release` is called. At most one hold can be
   * active at a time.
   */
  hold(): { readonly revision: Revision; release(): void } {
    return this.#past.hold();
  }

  /** Returns entries at the held revision in key order, starting after the key `after`. Visits at most `keys` keys per call. */
  readHeld(after: string | undefined, keys: number): { readonly entries: readonly CurrentEntry[]; readonly last: string | undefined } {
    const entries: CurrentEntry[] = [];
    let left = keys;
    let last: string | undefined;
    const now = this.#options.clock.monotonic();
    this.#all.ascendFrom(after === undefined ? '' : `${sortKey(after)}\u0000`, (history) => {
      const entry = history.at(this.#past.held);
      if (entry) {
        const expiring = history.heapIndex >= 0 && history.entry === entry;
        entries.push({ entry, secondsLeft: expiring ? (history.deadline - now) / 1000 : undefined });
      }
      left -= 1;
      last = history.key;
      return left > 0;
    });
    return { entries, last: left > 0 ? undefined : last };
  }

  #checkReadable(revision: Revision | undefined): void {
    this.checkRunning();
    if (revision === undefined) return;
    if (revision < this.#past.compacted) throw this.#compactedError(revision);
    if (revision > this.#revision)
      throw new StorageError('FutureRevision', `revision ${revision} is in the future: the store is at ${this.#revision}`);
  }

  #history(key: string): KeyHistory {
    const history = new KeyHistory(key, sortKey(key));
    this.#keys.set(key, history);
    this.#all.set(history.sortKey, history);
    return history;
  }

  #put(key: string, value: Uint8Array, ttlSeconds: number | undefined, revision: Revision): void {
    const history = this.#keys.get(key) ?? this.#history(key);
    const previous = history.entry;
    if (!previous) this.#live.set(history.sortKey, history);
    const entry: Entry = { key, value, revision, created: previous ? previous.created : revision };
    this.#record({
      history,
      revision,
      entry,
      change: { type: 'put', entry, previous },
      replacedBytes: previous ? previous.value.length : 0,
    });
    if (ttlSeconds !== undefined) this.#expiry.set(history, ttlSeconds);
    else this.#expiry.clear(history);
  }

  #delete(key: string, revision: Revision): boolean {
    const history = this.#keys.get(key);
    const previous = history?.entry;
    if (!history || !previous) return false;
    this.#live.delete(history.sortKey);
    this.#record({
      history,
      revision,
      entry: undefined,
      change: { type: 'delete', previous, revision },
      replacedBytes: previous.value.length,
    });
    this.#expiry.clear(history);
    return true;
  }

  #record(version: Version): void {
    this.#past.record(version);
    this.#hub.publish(version.history.key, version.change as Change);
  }

  async #pastPage(from: string, start: string, limit: number, revision: Revision): Promise<Page> {
    const range = await this.#past.ranges.get(from, revision, () =>
      gather(this.#all, { start: from, end: endOfPrefix(from), revision, limit: Infinity }, () => revision >= this.#past.compacted),
    );
    if (!range) throw this.#compactedError(revision);
    return pageOf(range, start, limit);
  }

  #compactedError(revision: Revision): StorageError {
    return new StorageError('Compacted', `revision ${revision} is compacted: the oldest one is ${this.#past.compacted}`);
  }

  #expire(): void {
    if (this.#failure) return;
    const due = this.#expiry.take(slice.expired);
    this.#options.onExpired(due.map(({ key, entry }) => ({ key, revision: (entry as Entry).revision })));
  }
}
