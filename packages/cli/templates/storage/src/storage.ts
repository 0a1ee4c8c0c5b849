import type { Clock } from '@oarlock/primitives/clock';
import { mvccDefaults } from '@oarlock/mvcc/mvcc-limits';
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

/** A storage driver in memory. @oarlock/mvcc keeps keys and their revisions; this class decides when a commit is applied. */
export class __Class__ implements StorageDriver {
  readonly traits: StorageDriver['traits'];
  readonly #store: MvccStore;

  constructor({ clock, maxValueBytes }: { readonly clock: Clock; readonly maxValueBytes: number }) {
    this.traits = { durable: false, shared: false, maxValueBytes };
    this.#store = new MvccStore({
      ...mvccDefaults,
      clock,
      onExpired: (due) => {
        this.#apply(due.map(({ key }) => ({ key, value: null })));
      },
    });
  }

  async stop(): Promise<void> {
    this.#store.fail(new StorageError('Unavailable', '__ID__ is stopped'));
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

  async compact(revision: Revision): Promise<void> {
    if (this.#store.compactable(revision)) await this.#store.compact(revision);
  }

  async skipTo(revision: Revision): Promise<void> {
    this.#store.checkRunning();
    this.#store.skipTo(revision);
  }

  /** Applies a commit and returns its revision. A durable storage writes the commit to disk first, and sets `durable` in its traits. */
  #apply(writes: readonly Write[]): Revision {
    this.#store.apply(writes, this.#store.revision + 1);
    return this.#store.revision;
  }
}
