import type { Clock } from '@oarlock/kernel/clock';
import type { Expired, MvccStore } from '@oarlock/mvcc/mvcc-store';
import { refusal } from '@oarlock/mvcc/write-rules';
import { StorageError, type Commit, type Entry, type Expectation, type Revision, type Write } from '@oarlock/spi/storage';
import { recordBytes, type LoggedWrite, type LogRecord } from './commit-records.ts';

interface Waiting<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}
export type Job =
  | (Waiting<Commit> & { readonly type: 'commit'; readonly writes: readonly Write[]; readonly expect: readonly Expectation[] })
  | { readonly type: 'expire'; readonly due: readonly Expired[] }
  | (Waiting<void> & { readonly type: 'compact'; readonly revision: Revision })
  | (Waiting<void> & { readonly type: 'skip'; readonly revision: Revision });

/** What goes to the disk together. */
const mostBytes = 4 * 1024 * 1024;

/**
 * Commits that are decided one after the other, each on what the ones before it leave, and are all to be on the disk before anybody
 * sees one of them.
 */
export class Batch {
  readonly #store: MvccStore;
  readonly #clock: Clock;
  /** What stands under the keys that this batch writes. */
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
    return this.bytes >= mostBytes;
  }

  add(job: Job): void {
    this.jobs.push(job);
    if (job.type === 'commit') {
      const refused = refusal(job.expect, (key) => this.#standing(key));
      if (refused) this.#outcomes.push({ settle: () => job.resolve(refused) });
      else {
        const apply = this.#write(job.writes);
        const revision = this.#revision;
        this.#outcomes.push({ ...(apply && { apply }), settle: () => job.resolve({ ok: true, revision }) });
      }
    } else if (job.type === 'expire') {
      const due = job.due.filter(({ key, revision }) => this.#standing(key)?.revision === revision);
      const apply = this.#write(due.map(({ key }) => ({ key, value: null })));
      if (apply) this.#outcomes.push({ apply, settle: () => undefined });
    } else if (job.type === 'compact') this.#compact(job);
    else this.#skip(job);
  }

  /** It is on the disk: from here on it is seen, and then acknowledged. */
  done(): void {
    for (const { apply } of this.#outcomes) apply?.();
    for (const { settle } of this.#outcomes) settle();
  }

  #standing(key: string): Entry | undefined {
    return this.#overlay.has(key) ? this.#overlay.get(key) : this.#store.standing(key);
  }

  #record(record: LogRecord): void {
    this.records.push(record);
    this.bytes += recordBytes(record);
  }

  /** Returns how to apply it; undefined when nothing is to be written. */
  #write(wanted: readonly Write[]): (() => void) | undefined {
    const effective = wanted.filter(({ key, value }) => value !== null || this.#standing(key) !== undefined);
    if (effective.length === 0) return undefined;
    const revision = this.#revision + 1;
    const now = this.#clock.now();
    const writes = effective.map(
      (write): LoggedWrite => ({ ...write, deadline: write.ttlSeconds === undefined ? 0 : now + write.ttlSeconds * 1000 }),
    );
    for (const { key, value } of writes)
      this.#overlay.set(key, value === null ? undefined : { key, value, revision, created: this.#standing(key)?.created ?? revision });
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
