import type { Health } from '../role/role.ts';
import { slot } from '@oarlock/kernel/slot';
import type { StorageMembers } from '../composition/storage-server.ts';

/** A number that increases with every commit, across all keys; 0 is before the first commit. API objects report it as `resourceVersion`. */
export type Revision = number;

export interface Entry {
  readonly key: string;
  /** Immutable: neither the driver nor the caller changes it. */
  readonly value: Uint8Array;
  /** Revision of the commit that wrote this value (etcd's mod_revision). */
  readonly revision: Revision;
  /** Revision of the commit that created the key (etcd's create_revision). */
  readonly created: Revision;
}

export interface RangeOptions {
  /** Selects keys with this literal prefix. '' selects all. */
  readonly prefix: string;
  /** Selects only keys that sort after this one, in the order of UTF-8 bytes. */
  readonly after?: string;
  /** Maximum number of entries. Absent: all. */
  readonly limit?: number;
  /** Reads at this revision. Absent: the newest. */
  readonly revision?: Revision;
}

export interface Page {
  /** In the order of the keys' UTF-8 bytes. */
  readonly entries: readonly Entry[];
  /** The revision at which the whole page was read. */
  readonly revision: Revision;
  readonly more: boolean;
  /** Number of entries after this page, at the same revision. `more` is true if there are any. */
  readonly remaining: number;
}

/** A value under a key, or `null` to delete it. */
export interface Write {
  readonly key: string;
  readonly value: Uint8Array | null;
  /** Time to live in seconds: an integer of at least 1. The key is deleted after that time unless a later write states a new one. */
  readonly ttlSeconds?: number;
}

/** A condition on the revision of a key; with revision 0, the key must not exist. */
export interface Precondition {
  readonly key: string;
  readonly revision: Revision;
}

export type CommitResult =
  | { readonly ok: true; readonly revision: Revision }
  /** A precondition failed and nothing was written. `current` is the entry of the first key whose precondition failed. */
  | { readonly ok: false; readonly key: string; readonly current: Entry | undefined };

export type Change =
  | { readonly type: 'put'; readonly entry: Entry; readonly previous: Entry | undefined }
  | { readonly type: 'delete'; readonly previous: Entry; readonly revision: Revision };

/** The changes of one or more whole commits. An empty batch reports progress: all changes up to `revision` were delivered. */
export interface ChangeBatch {
  readonly changes: readonly Change[];
  readonly revision: Revision;
}

/** A state of the storage that an administrator has to end. */
export interface StorageCondition {
  /** The reason of an Event about it, in CamelCase. Unique among the conditions of a storage. */
  readonly reason: string;
  /** What is wrong, and what to do. */
  readonly message: string;
  /** True if no commit succeeds before the condition ends: an Event about it can only be written afterward. */
  readonly rejectsCommits: boolean;
}

/**
 * A key-value store with multi-version concurrency control, as etcd. It is independent of API objects.
 *
 * Guaranteed, and tested by the contract suite for every driver, cache and remote proxy:
 *
 * - `commit` is linearizable: all its writes take effect at one revision if every precondition holds, else none. Every later call
 *   sees an acknowledged commit; with the trait `durable` it survives a SIGKILL of the process.
 * - Deleting an absent key writes nothing. A commit that writes nothing returns the revision at which its preconditions were checked.
 * - `watch` delivers every change under the prefix with a revision greater than `after` once, in order, until its signal aborts.
 *   Expired keys are delivered as deletions.
 * - Reading or watching before the last compaction throws `Compacted`; reading or watching a future revision throws
 *   `FutureRevision`.
 *
 * Not guaranteed: that revisions are consecutive.
 *
 * ```ts
 * const { entry } = await storage.get('/registry/pods/default/web');
 * const result = await storage.commit(
 *   [{ key: '/registry/pods/default/web', value }],
 *   [{ key: '/registry/pods/default/web', revision: entry?.revision ?? 0 }],
 * );
 * if (!result.ok) retry(result.current);
 * ```
 */
export interface StorageDriver {
  /** Properties beyond the guarantees above. */
  readonly traits: {
    /** True if acknowledged commits survive the process. */
    readonly durable: boolean;
    /** True if other processes may write at the same time. */
    readonly shared: boolean;
    /** Largest value that a commit accepts, in bytes. */
    readonly maxValueBytes: number;
  };
  /** The members of the storage, if they run on the servers of the cluster. */
  readonly members?: StorageMembers;
  /**
   * Returns whether the storage accepts commits as far as it knows, for example from the last commit. Cheap and without side effects. Absent if the
   * storage does not know; `get` then is the only check.
   */
  checkHealth?(): Health;
  /**
   * Calls the listener with the present conditions, at once and whenever they may have changed, until the returned function is called. Absent if the
   * storage has none.
   */
  watchConditions?(listener: (conditions: readonly StorageCondition[]) => void): () => void;
  /** Returns the entry of a key. @throws StorageError `Compacted`, `FutureRevision` or `Unavailable` */
  get(key: string, options?: { readonly revision?: Revision }): Promise<{ readonly entry: Entry | undefined; readonly revision: Revision }>;
  /** Returns the entries that `options` selects. @throws StorageError `Compacted`, `FutureRevision` or `Unavailable` */
  range(options: RangeOptions): Promise<Page>;
  /**
   * Writes all keys atomically if every precondition holds.
   * @throws StorageError `TooLarge` (nothing was written), `Full` or `Unavailable` (it is unknown whether the commit took effect)
   */
  commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult>;
  /**
   * Returns batches of changes after the revision `after`.
   *
   * An empty batch reports progress. It is sent when the watch has caught up with the store, and after each `requestProgress`. A
   * reader that is too slow gets `Lagged` instead of an unbounded buffer, and must list again.
   * @throws StorageError from the iterator: `Compacted`, `FutureRevision`, `Lagged`, `Unavailable`
   */
  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch>;
  /** Returns the newest revision (linearizable). Every open watch reports progress at or after it without waiting for a write. */
  requestProgress(): Promise<Revision>;
  /**
   * Returns the newest revision (linearizable) without waiting and without a report of progress. Absent if another process has the store.
   * @throws StorageError `Unavailable`
   */
  currentRevision?(): Revision;
  /** Discards versions that were overwritten or deleted before `revision`. Reads at `revision` and later are not affected. */
  compact(revision: Revision): Promise<void>;
  /**
   * Continues the store after `revision`, as if all earlier revisions had been compacted, so that clients from before a restore do not mistake old
   * revisions for new ones. Does nothing if the store's revision is already greater. Absent if the driver does not support it.
   */
  skipTo?(revision: Revision): Promise<void>;
}

const brand = Symbol.for('oarlock:StorageError');

export type StorageErrorCode = 'Compacted' | 'FutureRevision' | 'TooLarge' | 'Full' | 'Lagged' | 'Unavailable' | 'Corrupt';
export class StorageError extends Error {
  /** Makes `instanceof` work across two copies of this package: Oarlock's and a plugin's. */
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

/** Plugins declare `{ durable: true | false, shared: true | false }`. */
export const Storage = slot.one<StorageDriver>('storage/v1');
