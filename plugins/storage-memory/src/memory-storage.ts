import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { mvccDefaults, type MvccLimits } from '@oarlock/mvcc/mvcc-limits';
import { MvccStore } from '@oarlock/mvcc/mvcc-store';
import { validateWrites, failedPrecondition } from '@oarlock/mvcc/commit-validation';
import {
  StorageError,
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

export interface MemoryStorageOptions extends Partial<MvccLimits> {
  readonly clock?: Clock;
  readonly maxValueBytes?: number;
}

export const defaults = { ...mvccDefaults, maxValueBytes: 1.5 * 1024 * 1024 } as const;

/** A storage driver without persistence. A commit is checked, applied and visible in one synchronous step. */
export class MemoryStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #store: MvccStore;

  constructor({ clock = systemClock, ...options }: MemoryStorageOptions = {}) {
    const { maxValueBytes, ...limits } = { ...defaults, ...options };
    this.traits = { durable: false, shared: false, maxValueBytes };
    this.#store = new MvccStore({
      ...limits,
      clock,
      onExpired: (due) => {
        this.#apply(due.map(({ key }) => ({ key, value: null })));
      },
    });
  }

  /** Statistics for metrics. `steps` is the number of index entries visited. */
  get stats() {
    return this.#store.stats;
  }

  async stop(): Promise<void> {
    this.#store.fail(new StorageError('Unavailable', 'the storage is stopped'));
  }

  async get(key: string, { revision }: { readonly revision?: Revision } = {}): Promise<{ entry: Entry | undefined; revision: Revision }> {
    return this.#store.get(key, revision);
  }

  async range(options: RangeOptions): Promise<Page> {
    return this.#store.range(options);
  }

  async commit(writes: readonly Write[], expect: readonly Precondition[]): Promise<CommitResult> {
    this.#store.checkRunning();
    validateWrites(writes, this.traits.maxValueBytes);
    return failedPrecondition(expect, (key) => this.#store.currentEntry(key)) ?? { ok: true, revision: this.#apply(writes) };
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return this.#store.watch(prefix, options);
  }

  async requestProgress(): Promise<Revision> {
    return this.#store.progress();
  }
  currentRevision(): Revision {
    return this.#store.currentRevision();
  }

  async compact(revision: Revision): Promise<void> {
    if (this.#store.compactable(revision)) await this.#store.compact(revision);
  }

  async skipTo(revision: Revision): Promise<void> {
    this.#store.checkRunning();
    this.#store.skipTo(revision);
  }

  /** Applies writes. Returns the resulting revision, which is a new one if anything was written. */
  #apply(writes: readonly Write[]): Revision {
    this.#store.apply(writes, this.#store.revision + 1);
    return this.#store.revision;
  }
}
