import { systemClock, type Clock } from '@oarlock/kernel/clock';
import { mvccDefaults, type MvccLimits } from '@oarlock/mvcc/mvcc-limits';
import { MvccStore } from '@oarlock/mvcc/mvcc-store';
import { checkWrites, refusal } from '@oarlock/mvcc/write-rules';
import {
  StorageError,
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

export interface MemoryStorageOptions extends Partial<MvccLimits> {
  readonly clock?: Clock;
  readonly maxValueBytes?: number;
}

export const defaults = { ...mvccDefaults, maxValueBytes: 1.5 * 1024 * 1024 } as const;

/** A commit is decided, applied and seen in one step. */
export class MemoryStorage implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #store: MvccStore;

  constructor({ clock = systemClock, ...options }: MemoryStorageOptions = {}) {
    const { maxValueBytes, ...limits } = { ...defaults, ...options };
    this.traits = { durable: false, shared: false, maxValueBytes };
    this.#store = new MvccStore({
      ...limits,
      clock,
      expired: (due) => {
        this.#apply(due.map(({ key }) => ({ key, value: null })));
      },
    });
  }

  /** For metrics. `steps`: index entries that were looked at. */
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

  async commit(writes: readonly Write[], expect: readonly Expectation[]): Promise<Commit> {
    this.#store.checkRunning();
    checkWrites(writes, this.traits.maxValueBytes);
    return refusal(expect, (key) => this.#store.standing(key)) ?? { ok: true, revision: this.#apply(writes) };
  }

  watch(prefix: string, options: { readonly after: Revision; readonly signal: AbortSignal }): AsyncIterable<ChangeBatch> {
    return this.#store.watch(prefix, options);
  }

  async requestProgress(): Promise<Revision> {
    return this.#store.progress();
  }

  async compact(revision: Revision): Promise<void> {
    if (this.#store.compactable(revision)) await this.#store.compact(revision);
  }

  async skipTo(revision: Revision): Promise<void> {
    this.#store.checkRunning();
    this.#store.skipTo(revision);
  }

  /** Returns the revision after it: a new one if anything was written. */
  #apply(writes: readonly Write[]): Revision {
    this.#store.apply(writes, this.#store.revision + 1);
    return this.#store.revision;
  }
}
