import { slot } from '@oarlock/kernel/slot';

/** Grows with every commit, over all keys; 0 is before the first. Becomes `resourceVersion`. */
export type Revision = number;

export interface Entry {
  readonly key: string;
  /** Never changed after it was handed over, by either side. */
  readonly value: Uint8Array;
  /** Of the commit that wrote this value. */
  readonly revision: Revision;
  /** Of the commit that created the key. */
  readonly created: Revision;
}

export interface RangeOptions {
  /** Keys that start with these characters, taken literally. '' is everything. */
  readonly prefix: string;
  /** Only keys that sort after this one, bytewise in UTF-8. */
  readonly after?: string;
  /** At most so many entries; absent: all. */
  readonly limit?: number;
  /** As of this revision; absent: the newest. */
  readonly revision?: Revision;
}

export interface Page {
  /** In bytewise order of keys. */
  readonly entries: readonly Entry[];
  /** The revision that the whole page is read at. */
  readonly revision: Revision;
  readonly more: boolean;
  /** Entries after this page, at the same revision. */
  readonly remaining: number;
}

/** A value under a key, or `null` to delete it. */
export interface Write {
  readonly key: string;
  readonly value: Uint8Array | null;
  /** Deletes the key by itself after so many seconds (whole, at least 1), counted anew by each write that states it. */
  readonly ttlSeconds?: number;
}

/** The key is still at this revision; 0: the key is absent. */
export interface Expectation {
  readonly key: string;
  readonly revision: Revision;
}

export type Commit =
  | { readonly ok: true; readonly revision: Revision }
  /** Nothing was written. `current` is what stands under the first key that was not as expected. */
  | { readonly ok: false; readonly key: string; readonly current: Entry | undefined };

export type Change =
  | { readonly type: 'put'; readonly entry: Entry; readonly previous: Entry | undefined }
  | { readonly type: 'delete'; readonly previous: Entry; readonly revision: Revision };

/** Changes of one or more commits, whole commits only. With no changes it says: you have seen all up to `revision`. */
export interface ChangeBatch {
  readonly changes: readonly Change[];
  readonly revision: Revision;
}

/**
 * Keeps bytes under keys, in one order of revisions. It knows nothing of API objects.
 *
 * Promises that the contract suite holds every driver, cache and remote proxy to:
 *  - `commit` is linearizable: its writes happen all at one revision if every expectation holds, else none; a commit that
 *    was acknowledged is seen by every later call and, where `durable`, survives kill -9 of the process;
 *  - a delete of an absent key writes nothing; a commit that writes nothing reports the revision it was decided at;
 *  - `watch` delivers every change after `after` under the prefix, once, in order of revision, and goes on until its
 *    signal aborts; deletes by TTL are changes like any other;
 *  - reading or watching from before the last compaction is refused with `Compacted`; from the future with `FutureRevision`.
 * It does not promise that revisions are dense.
 */
export interface StorageDriver {
  /** What a caller may rely on beyond the promises. */
  readonly traits: {
    /** Acknowledged commits survive the process. */
    readonly durable: boolean;
    /** Other processes may write at the same time. */
    readonly shared: boolean;
    /** The largest value a commit takes, in bytes. */
    readonly maxValueBytes: number;
  };
  /** @throws StorageError `Compacted`, `FutureRevision`, `Unavailable` */
  get(key: string, options?: { readonly revision?: Revision }): Promise<{ readonly entry: Entry | undefined; readonly revision: Revision }>;
  /** @throws StorageError `Compacted`, `FutureRevision`, `Unavailable` */
  range(options: RangeOptions): Promise<Page>;
  /** @throws StorageError `TooLarge`, `Full` (nothing was written), `Unavailable` (then it is unknown whether it happened) */
  commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit>;
  /**
   * Batches of changes with a revision after `after`. An empty batch is progress: sent once the watch has caught up
   * (so that a reader knows the stream is live), and after each `requestProgress`.
   * A reader that is too slow is cut off with `Lagged` rather than buffered for without bound; it reads anew.
   * @throws StorageError `Compacted`, `FutureRevision`, `Lagged`, `Unavailable`, from the iterator
   */
  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch>;
  /** The newest revision, linearizable. Every open watch reports progress at or beyond it without waiting for a write. */
  requestProgress(): Promise<Revision>;
  /** Forgets what was overwritten or deleted before `revision`; what is readable at `revision` and later stays. */
  compact(revision: Revision): Promise<void>;
  /**
   * The store goes on after this revision, as if everything before had been compacted: what was read and watched elsewhere, at revisions up
   * to there, is of the past. For a restored backup. Absent: the driver cannot. Does nothing where the store is beyond it.
   */
  skipTo?(revision: Revision): Promise<void>;
}

const brand = Symbol.for('oarlock:StorageError');

export type StorageErrorCode = 'Compacted' | 'FutureRevision' | 'TooLarge' | 'Full' | 'Lagged' | 'Unavailable' | 'Corrupt';
export class StorageError extends Error {
  /** Two copies of this package, a plugin's and ours, agree on what a StorageError is. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'StorageError';
  readonly code: StorageErrorCode;
  constructor(code: StorageErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Drivers declare `{ durable: true | false, shared: true | false }`. */
export const Storage = slot.one<StorageDriver>('storage/v1');
