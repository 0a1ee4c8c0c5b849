import type { Clock } from '@oarlock/primitives/clock';
import type { ExpiredKey, MvccStore } from '@oarlock/mvcc/mvcc-store';
import { failedPrecondition } from '@oarlock/mvcc/commit-validation';
import { StorageError, type CommitResult, type Entry, type Precondition, type Revision, type Write } from '@oarlock/spi/storage';
import { recordBytes, type LoggedWrite, type LogRecord } from './commit-records.ts';

interface PendingResult<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}
export type Job =
  | (PendingResult<CommitResult> & { readonly type: 'commit'; readonly writes: readonly Write[]; readonly expect: readonly Precondition[] })
  | { readonly type: 'expire'; readonly due: readonly ExpiredKey[] }
  | (PendingResult<void> & { readonly type: 'compact'; readonly revision: Revision })
  | (PendingResult<void> & { readonly type: 'skip'; readonly revision: Revision });

/** Limit of a batch that is written to the disk at once. */
const maxBatchBytes = 4 * 1024 * 1024;

/**
 * A batch of commits that are checked one after the other, each against the result of the earlier commits, and written to the disk together. No
 * commit is visible before all commits of the batch are on the disk.
 */
export class CommitBatch {
  readonly #store: MvccStore;
  readonly #clock: Clock;
  /** The entries of the keys that this batch writes. */
  readonly #overlay = new Map<string, Entry | undefined>();
  readonly #outcomes: { readonly apply?: () => void; readonly settle: () => void }[] = [];
  readonly jobs: Job[] = [];
  readonly records: LogRecord[] = [];
  bytes = 0;
  #revision: Revision;

  constructor(store: MvccStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    this.#revision = store.revision;
  }

  get full(): boolean {
    return this.bytes >= maxBatchBytes;
  }

  add(job: Job): void {
    this.jobs.push(job);
    if (job.type === 'commit') {
      const failed = failedPrecondition(job.expect, (key) => this.#currentEntry(key));
      if (failed) this.#outcomes.push({ settle: () => job.resolve(failed) });
      else {
        const apply = this.#write(job.writes);
        const revision = this.#revision;
        this.#outcomes.push({ ...(apply && { apply }), settle: () => job.resolve({ ok: true, revision }) });
      }
    } else if (job.type === 'expire') {
      const due = job.due.filter(({ key, revision }) => this.#currentEntry(key)?.revision === revision);
      const apply = this.#write(due.map(({ key }) => ({ key, value: null })));
      if (apply) this.#outcomes.push({ apply, settle: () => undefined });
    } else if (job.type === 'compact') this.#compact(job);
    else this.#skip(job);
  }

  /** Called when the batch is on the disk: makes all commits visible, then acknowledges them. */
  done(): void {
    for (const { apply } of this.#outcomes) apply?.();
    for (const { settle } of this.#outcomes) settle();
  }

  #currentEntry(key: string): Entry | undefined {
    return this.#overlay.has(key) ? this.#overlay.get(key) : this.#store.currentEntry(key);
  }

  #record(record: LogRecord): void {
    this.records.push(record);
    this.bytes += recordBytes(record);
  }

  /** Records the writes, and returns a function that applies them; undefined if there is nothing to write. */
  #write(requested: readonly Write[]): (() => void) | undefined {
    const effective = requested.filter(({ key, value }) => value !== null || this.#currentEntry(key) !== undefined);
    if (effective.length === 0) return undefined;
    const revision = this.#revision + 1;
    const now = this.#clock.now();
    const writes = effective.map(
      (write): LoggedWrite => ({ ...write, deadline: write.ttlSeconds === undefined ? 0 : now + write.ttlSeconds * 1000 }),
    );
    for (const { key, value } of writes)
      this.#overlay.set(key, value === null ? undefined : { key, value, revision, created: this.#currentEntry(key)?.created ?? revision });
    this.#revision = revision;
    this.#record({ type: 'commit', revision, writes });
    return () => this.#store.apply(effective, revision);
  }

  #compact(job: Extract<Job, { type: 'compact' }>): void {
    const { revision } = job;
    if (revision > this.#revision) {
      const error = new StorageError('FutureRevision', `cannot compact ${revision}: the store is at ${this.#revision}`);
      this.#outcomes.push({ settle: () => job.reject(error) });
      return;
    }
    if (revision > this.#store.compacted) this.#record({ type: 'compact', revision });
    this.#outcomes.push({ settle: () => void this.#store.compact(revision).then(job.resolve, job.reject) });
  }

  #skip(job: Extract<Job, { type: 'skip' }>): void {
    const { revision } = job;
    if (revision > this.#revision) {
      this.#revision = revision;
      this.#record({ type: 'skip', revision });
    }
    this.#outcomes.push({ apply: () => this.#store.skipTo(revision), settle: () => job.resolve() });
  }
}
