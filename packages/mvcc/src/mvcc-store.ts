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
import { CommitLog } from './commit-log.ts';
import { Expiry } from './expiry.ts';
import { KeyHistory, type Version } from './key-history.ts';
import { gather, PastRanges, turn } from './past-ranges.ts';
import { behind, sortKey } from './sort-key.ts';
import { SortedIndex } from './sorted-index.ts';
import { WatchQueue } from './watch-queue.ts';

export interface MvccLimits {
  /** Changes that stay readable and watchable; older ones are compacted on the way. */
  readonly historyChanges: number;
  /** Bytes that these may hold beyond what stands now, roughly. */
  readonly historyBytes: number;
  /** What may wait for the reader of one watch before it is cut off. */
  readonly watchBytes: number;
  readonly watchChanges: number;
}

export const mvccDefaults: MvccLimits = {
  historyChanges: 100_000,
  historyBytes: 64 * 1024 * 1024,
  watchBytes: 64 * 1024 * 1024,
  watchChanges: 100_000,
};

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

/** What a change costs beside the value it replaced: its objects, its place in the log. */
const changeBytes = 256;
/** Work done at a stretch, so that nobody waits long for the event loop. */
const slice = { expired: 500, forgotten: 2_000, trimmed: 64, read: 5_000 };

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
  readonly #log = new CommitLog();
  readonly #past = new PastRanges();
  readonly #expiry: Expiry<KeyHistory>;
  readonly #hub = new ChangeHub(0);
  #revision: Revision = 0;
  #compacted: Revision = 0;
  #held: Revision = Infinity;
  #historyBytes = 0;
  #failure: StorageError | undefined;

  constructor(options: MvccOptions) {
    this.#options = options;
    this.#expiry = new Expiry(options.clock, () => this.#expire());
  }

  get revision(): Revision {
    return this.#revision;
  }
  /** The oldest revision that can be read. */
  get compacted(): Revision {
    return this.#compacted;
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
        () => read.revision >= this.#compacted,
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
    for (const batch of backlog(this.#log, this.#all, prefix, after)) queue.push(batch, 0, { backlog: true });
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
    this.#trim();
    return true;
  }

  /** Goes on after a revision, as if all before had been compacted. */
  skipTo(revision: Revision): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    this.#compactedTo(revision);
    this.#hub.committed(revision);
    this.#hub.progress();
    void this.#sweep();
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
    return revision > this.#compacted;
  }

  /** Older revisions are refused at once, and cleared away at leisure. Resolves when they are. */
  async compact(revision: Revision): Promise<void> {
    if (revision <= this.#compacted) return;
    this.#compactedTo(revision);
    await this.#sweep();
  }

  /** Keeps the state at the oldest readable revision in memory until `release`, compacted meanwhile or not. One at a time. */
  hold(): { readonly revision: Revision; release(): void } {
    const revision = this.#compacted;
    this.#held = revision;
    return {
      revision,
      release: () => {
        this.#held = Infinity;
        void this.#sweep();
      },
    };
  }

  /** Some entries as of the revision that is held, in order, from behind a key: as many keys are looked at as `keys` says. */
  stretch(after: string | undefined, keys: number): { readonly entries: readonly Standing[]; readonly last: string | undefined } {
    const entries: Standing[] = [];
    let left = keys;
    let last: string | undefined;
    const now = this.#options.clock.monotonic();
    this.#all.from(after === undefined ? '' : `${sortKey(after)}\u0000`, (history) => {
      const entry = history.at(this.#held);
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
    if (revision < this.#compacted) throw this.#compactedError(revision);
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
    version.history.add(version);
    this.#log.push(version);
    this.#historyBytes += version.replaced + changeBytes;
    this.#hub.publish(version.history.key, version.change as Change);
  }

  #compactedTo(revision: Revision): void {
    this.#compacted = revision;
    this.#past.compact(revision);
  }

  /** Compacts the oldest commits when the history has grown too long. Each commit pays for about one. */
  #trim(): void {
    const { historyChanges, historyBytes } = this.#options;
    for (let done = 0; done < slice.trimmed; done += 1) {
      const oldest = this.#log.oldest;
      // what is held cannot be cleared away: that is made up for later
      if (!oldest || oldest.revision > this.#held || (this.#log.size <= historyChanges && this.#historyBytes <= historyBytes)) return;
      if (oldest.revision > this.#compacted) this.#compactedTo(oldest.revision);
      this.#forget(1);
    }
  }

  async #sweep(): Promise<void> {
    while (!this.#forget(slice.forgotten)) await turn();
  }

  /** Clears away compacted versions, at most so many. Returns whether none is left. */
  #forget(limit: number): boolean {
    const until = Math.min(this.#compacted, this.#held);
    for (let done = 0; done < limit; done += 1) {
      const version = this.#log.oldest;
      if (!version || version.revision > until) return true;
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
    if (this.#failure) return;
    const due = this.#expiry.take(slice.expired);
    this.#options.expired(due.map(({ key, entry }) => ({ key, revision: (entry as Entry).revision })));
  }
}
