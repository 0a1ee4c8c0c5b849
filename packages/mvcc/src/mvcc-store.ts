import type { Clock } from '@oarlock/kernel/clock';
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
import { backlog } from './backlog.ts';
import { ChangeHub } from './change-hub.ts';
import { Expiry } from './expiry.ts';
import { KeyHistory, type Version } from './key-history.ts';
import type { MvccLimits } from './mvcc-limits.ts';
import { gather, pageOf } from './past-ranges.ts';
import { PastVersions } from './past-versions.ts';
import { behind, sortKey } from './sort-key.ts';
import { SortedIndex } from './sorted-index.ts';
import { WatchQueue } from './watch-queue.ts';

export interface MvccOptions extends MvccLimits {
  readonly clock: Clock;
  /** Keys whose time is over, to be deleted by a commit. Each is told once: who cannot delete it sets it anew. */
  expired(due: readonly Expired[]): void;
}
/** A key as it stood when its time was over: what was written since is not meant. */
export interface Expired {
  readonly key: string;
  readonly revision: Revision;
}

/** One entry as of a revision, with the time its key has left. */
export interface Standing {
  readonly entry: Entry;
  /** Absent: for good, or until a later commit says otherwise. */
  readonly secondsLeft: number | undefined;
}

/** Work done at a stretch, so that nobody waits long for the event loop. */
const slice = { expired: 500, read: 5_000 };

/**
 * Keys with their recent past, in memory, and everybody who watches them. Keys are in a map and in two sorted indexes: those that
 * stand, and all that can be read, now or in the past. Each key has its versions, and all versions are in one log. What is handed out
 * is what was handed in: values are never copied.
 *
 * It decides nothing: whoever owns it gives each commit its revision and applies it when it is to be seen.
 */
export class MvccStore {
  readonly #options: MvccOptions;
  readonly #keys = new Map<string, KeyHistory>();
  readonly #live = new SortedIndex<KeyHistory>();
  readonly #all = new SortedIndex<KeyHistory>();
  readonly #past: PastVersions;
  readonly #expiry: Expiry<KeyHistory>;
  readonly #hub = new ChangeHub(0);
  #revision: Revision = 0;
  #failure: StorageError | undefined;

  constructor(options: MvccOptions) {
    this.#options = options;
    this.#past = new PastVersions(options, (history) => {
      this.#all.delete(history.sortKey);
      this.#keys.delete(history.key);
    });
    this.#expiry = new Expiry(options.clock, () => this.#expire());
  }

  get revision(): Revision {
    return this.#revision;
  }
  /** The oldest revision that can be read. */
  get compacted(): Revision {
    return this.#past.compacted;
  }

  /** For metrics. `steps`: index entries that were looked at. */
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

  /** Ends all watches, and refuses everything from here on, with this error. */
  fail(error: StorageError): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#expiry.stop();
    this.#hub.failAll(error);
  }

  /** @throws what `fail` was called with */
  checkRunning(): void {
    if (this.#failure) throw this.#failure;
  }

  /** What stands under a key now. */
  standing(key: string): Entry | undefined {
    return this.#keys.get(key)?.entry;
  }

  /** As `StorageDriver.get`. */
  get(key: string, revision?: Revision): { entry: Entry | undefined; revision: Revision } {
    this.#checkReadable(revision);
    const history = this.#keys.get(key);
    if (!history) sortKey(key);
    return { entry: revision === undefined ? history?.entry : history?.at(revision), revision: revision ?? this.#revision };
  }

  /** As `StorageDriver.range`. */
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
        () => read.revision >= this.#past.compacted,
      );
      if (long) return { entries: long.entries, ...read };
      return this.range({ prefix, limit, ...(after !== undefined && { after }) });
    }
    const entries: Entry[] = [];
    if (count > 0) this.#live.from(start, (history) => entries.push(history.entry as Entry) < count);
    return { entries, ...read };
  }

  /** As `StorageDriver.watch`. */
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
    for (const batch of backlog(this.#past.log, this.#all, prefix, after)) queue.push(batch, 0, { backlog: true });
    queue.push({ changes: [], revision: this.#revision }, 0);
    return queue;
  }

  /** Every watch is told how far it has seen. */
  progress(): Revision {
    this.checkRunning();
    this.#hub.progress();
    return this.#revision;
  }

  /** Takes in one commit. Returns whether it changed anything; if not, its revision was not used. Times to live may be parts of a second. */
  apply(writes: readonly Write[], revision: Revision): boolean {
    let written = false;
    for (const { key, value, ttlSeconds } of writes) {
      if (value === null) {
        written = this.#delete(key, revision) || written;
      } else {
        this.#put(key, value, ttlSeconds, revision);
        written = true;
      }
    }
    if (!written) return false;
    this.#revision = revision;
    this.#hub.committed(revision);
    this.#past.trim();
    return true;
  }

  /** Goes on after a revision, as if all before had been compacted. */
  skipTo(revision: Revision): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    this.#past.compactTo(revision);
    this.#hub.committed(revision);
    this.#hub.progress();
    void this.#past.sweep();
  }

  /** What stood when this store was at another place, to begin with: entries in order of keys, none of them known yet, then `skipTo`. */
  restore(entry: Entry, secondsLeft: number | undefined): void {
    const history = this.#history(entry.key);
    history.add({ history, revision: entry.revision, entry, change: undefined, replaced: 0 });
    this.#live.set(history.sortKey, history);
    if (secondsLeft !== undefined) this.#expiry.set(history, secondsLeft);
  }

  /** A key is told as expired again, after so long. Nothing happens when it was written since. */
  expireLater({ key, revision }: Expired, seconds: number): void {
    const history = this.#keys.get(key);
    if (history?.entry?.revision === revision) this.#expiry.set(history, seconds);
  }

  /** Whether `compact` would do anything. @throws StorageError `FutureRevision`, and what `fail` was called with */
  compactable(revision: Revision): boolean {
    this.checkRunning();
    if (revision > this.#revision)
      throw new StorageError('FutureRevision', `cannot compact ${revision}: the store is at ${this.#revision}`);
    return revision > this.#past.compacted;
  }

  /** Older revisions are refused at once, and cleared away at leisure. Resolves when they are. */
  async compact(revision: Revision): Promise<void> {
    if (revision <= this.#past.compacted) return;
    this.#past.compactTo(revision);
    await this.#past.sweep();
  }

  /** Keeps the state at the oldest readable revision in memory until `release`, compacted meanwhile or not. One at a time. */
  hold(): { readonly revision: Revision; release(): void } {
    return this.#past.hold();
  }

  /** Some entries as of the revision that is held, in order, from behind a key: as many keys are looked at as `keys` says. */
  stretch(after: string | undefined, keys: number): { readonly entries: readonly Standing[]; readonly last: string | undefined } {
    const entries: Standing[] = [];
    let left = keys;
    let last: string | undefined;
    const now = this.#options.clock.monotonic();
    this.#all.from(after === undefined ? '' : `${sortKey(after)}\u0000`, (history) => {
      const entry = history.at(this.#past.held);
      if (entry) {
        const expiring = history.slot >= 0 && history.entry === entry;
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
    this.#past.record(version);
    this.#hub.publish(version.history.key, version.change as Change);
  }

  async #pastPage(from: string, start: string, limit: number, revision: Revision): Promise<Page> {
    const range = await this.#past.ranges.get(from, revision, () =>
      gather(this.#all, { start: from, end: behind(from), revision, limit: Infinity }, () => revision >= this.#past.compacted),
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
    this.#options.expired(due.map(({ key, entry }) => ({ key, revision: (entry as Entry).revision })));
  }
}
