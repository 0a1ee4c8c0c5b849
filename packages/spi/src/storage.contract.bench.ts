import type { Change, ChangeBatch, Commit, Entry, Expectation, Page, RangeOptions, Revision, StorageDriver, Write } from './storage.ts';
import { StorageError } from './storage.ts';

export interface StorageFixture {
  /** Over an empty store that nobody else writes to. Its revisions need not begin at 0. */
  readonly driver: StorageDriver;
  /** Closes the driver and removes what it kept. */
  dispose(): Promise<void>;
  /** The same data in a new driver after an abrupt end (kill -9, not a close). Needed where the driver's traits say `durable`. */
  reopen?(): Promise<StorageDriver>;
  /** Moves the driver's clock on. Without it the suite waits, in real time, for the deletes to arrive. */
  tick?(ms: number): void | Promise<void>;
  /** Units of work so far: index entries looked at, or requests sent. Without it the checks of cost are skipped. */
  cost?(): number;
  /** A watch that nobody reads must have been cut off once changes worth so many bytes of values passed it. Without it that check is skipped. */
  readonly lagBytes?: number;
}

export interface StorageContractOptions {
  /** How often each random test runs. Default 25. */
  readonly runs?: number;
  /** The reason why the store cannot run on this machine: the suite is then one visible skip. */
  readonly unavailable?: string;
}

export const bytes = (text: string): Uint8Array => Buffer.from(text);
export const text = (value: Uint8Array): string => Buffer.from(value).toString();
/** The order that the contract speaks of. */
export const bytewise = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

const show = ({ key, value, revision, created }: Entry) =>
  `${JSON.stringify(key)} = ${value.length > 64 ? `${value.length} bytes ${Buffer.from(value.subarray(0, 8)).toString('hex')}` : JSON.stringify(text(value))} @${revision} of ${created}`;

/** Everything a change says, on one line, so that lists of changes compare fast and differ readably. */
export function showChange(change: Change): string {
  return change.type === 'put'
    ? `put ${show(change.entry)}${change.previous ? ` over ${show(change.previous)}` : ''}`
    : `delete @${change.revision} ${show(change.previous)}`;
}
export const showEntries = (entries: Iterable<Entry>): string[] => [...entries].map(show);
export const keyOf = (change: Change): string => (change.type === 'put' ? change.entry.key : change.previous.key);
export const revisionOf = (change: Change): Revision => (change.type === 'put' ? change.entry.revision : change.revision);

/** One watch, read without pause. It checks the order of what arrives while it arrives. */
export class Recording {
  readonly changes: Change[] = [];
  readonly batches: ChangeBatch[] = [];
  readonly prefix: string;
  readonly after: Revision;
  /** What the reader may take for granted to have seen. */
  position: Revision;
  failure: unknown;
  ended = false;
  readonly #abort = new AbortController();
  readonly #done: Promise<void>;
  #refusalExpected = false;
  #waiting: (() => void)[] = [];

  constructor(driver: StorageDriver, prefix: string, after: Revision) {
    this.prefix = prefix;
    this.after = after;
    this.position = after;
    this.#done = this.#read(driver.watch(prefix, { after, signal: this.#abort.signal }));
  }

  async #read(batches: AsyncIterable<ChangeBatch>): Promise<void> {
    try {
      for await (const batch of batches) {
        this.#take(batch);
        this.#wake();
      }
    } catch (error) {
      this.failure = error;
    }
    this.ended = true;
    this.#wake();
  }

  #take(batch: ChangeBatch): void {
    let last = this.position;
    for (const change of batch.changes) {
      const revision = revisionOf(change);
      if (revision <= this.position)
        throw new Error(`already reported to have seen all up to ${this.position}, then came ${showChange(change)}`);
      if (revision < last) throw new Error(`out of order after ${last}: ${showChange(change)}`);
      if (!keyOf(change).startsWith(this.prefix)) throw new Error(`not under ${JSON.stringify(this.prefix)}: ${showChange(change)}`);
      last = revision;
      this.changes.push(change);
    }
    if (batch.revision < last) throw new Error(`a batch of revision ${batch.revision} goes up to ${last}`);
    this.position = batch.revision;
    this.batches.push(batch);
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** Resolves when `condition` holds. @throws what ended the watch before that */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.failure !== undefined) throw this.failure;
      if (this.ended) throw new Error('the watch ended');
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  /** Resolves when the watch said that everything up to `revision` was seen. */
  reached(revision: Revision): Promise<void> {
    return this.until(() => this.position >= revision);
  }

  /** Resolves with the error that ended the watch. */
  async refused(): Promise<unknown> {
    this.#refusalExpected = true;
    await this.#done;
    return this.failure;
  }

  /** @throws what ended the watch before this, unless `refused` was called */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#done;
    if (this.failure !== undefined && !this.#refusalExpected) throw this.failure;
  }
}

/** What the tests write with, and what has to be closed after each of them. */
export class Bench {
  readonly fixture: StorageFixture;
  readonly driver: StorageDriver;
  readonly runs: number;
  readonly #recordings: Recording[] = [];

  constructor(fixture: StorageFixture, runs: number) {
    this.fixture = fixture;
    this.driver = fixture.driver;
    this.runs = runs;
  }

  watch(prefix: string, after: Revision, driver: StorageDriver = this.driver): Recording {
    const recording = new Recording(driver, prefix, after);
    this.#recordings.push(recording);
    return recording;
  }

  /** @throws Error when an expectation did not hold */
  async write(writes: readonly Write[], expect: readonly Expectation[] = []): Promise<Revision> {
    const commit = await this.driver.commit(writes, expect);
    if (!commit.ok) throw new Error(`unexpected: ${JSON.stringify(commit.key)} is at ${commit.current?.revision ?? 0}`);
    return commit.revision;
  }

  put(key: string, value: string | Uint8Array, options: { readonly ttlSeconds?: number } = {}): Promise<Revision> {
    return this.write([{ key, value: typeof value === 'string' ? bytes(value) : value, ...options }]);
  }

  delete(key: string): Promise<Revision> {
    return this.write([{ key, value: null }]);
  }

  /** Writes one key after the other, many to a commit. Resolves with the last revision. */
  async fill(keys: readonly string[], value: (key: string) => string = (key) => key): Promise<Revision> {
    let revision = 0;
    for (let at = 0; at < keys.length; at += 100) {
      revision = await this.write(keys.slice(at, at + 100).map((key) => ({ key, value: bytes(value(key)) })));
    }
    return revision;
  }

  /** All pages of a range at one revision. `between` runs after each. */
  async pages(
    options: RangeOptions & { readonly limit: number },
    between: (page: Page) => Promise<unknown> = async () => {},
  ): Promise<Entry[]> {
    const entries: Entry[] = [];
    let page = await this.driver.range(options);
    for (;;) {
      entries.push(...page.entries);
      const last = page.entries.at(-1);
      if (!page.more || last === undefined) return entries;
      await between(page);
      page = await this.driver.range({ ...options, after: last.key, revision: page.revision });
    }
  }

  /** Units of work that `work` took. Only where the fixture counts them. */
  async costOf(work: () => Promise<unknown>): Promise<number> {
    const before = this.fixture.cost?.() ?? 0;
    await work();
    return (this.fixture.cost?.() ?? 0) - before;
  }

  async close(): Promise<void> {
    const stopped = await Promise.allSettled(this.#recordings.map((recording) => recording.stop()));
    await this.fixture.dispose();
    for (const outcome of stopped) if (outcome.status === 'rejected') throw outcome.reason;
  }
}

/** The code of the StorageError that `work` throws. @throws Error when it throws nothing, or something else */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof StorageError) return error.code;
    throw error;
  }
  throw new Error('it was not refused');
}

/** The store as it should be, told of commits in order of their revisions. */
export class Model {
  readonly #from: Revision;
  readonly #states: { readonly revision: Revision; readonly entries: ReadonlyMap<string, Entry>; readonly changes: readonly Change[] }[];

  constructor(from: Revision) {
    this.#from = from;
    this.#states = [{ revision: from, entries: new Map(), changes: [] }];
  }

  get revision(): Revision {
    return this.#states.at(-1)?.revision ?? this.#from;
  }
  get revisions(): Revision[] {
    return this.#states.map((state) => state.revision);
  }

  /** Takes a commit in. Returns whether it changes anything. */
  apply(writes: readonly Write[], revision: Revision): boolean {
    const entries = new Map(this.at(this.revision));
    const changes: Change[] = [];
    for (const { key, value } of writes) {
      const previous = entries.get(key);
      if (value !== null) {
        const entry: Entry = { key, value, revision, created: previous?.created ?? revision };
        entries.set(key, entry);
        changes.push({ type: 'put', entry, previous });
      } else if (previous) {
        entries.delete(key);
        changes.push({ type: 'delete', previous, revision });
      }
    }
    if (changes.length === 0) return false;
    if (revision <= this.revision) throw new Error(`revision ${revision} was used up: the store is at ${this.revision}`);
    this.#states.push({ revision, entries, changes });
    return true;
  }

  /**
   * Takes in commits that ran together. Those that changed nothing report the revision of one that did, which has then changed all that
   * they would have changed: so of two at one revision, the one with more to change comes first.
   */
  applyAll(commits: readonly { readonly writes: readonly Write[]; readonly revision: Revision }[]): void {
    const left = [...commits].sort((a, b) => a.revision - b.revision);
    const weight = ({ writes }: { readonly writes: readonly Write[] }) =>
      writes.filter(({ key, value }) => value !== null || this.at(this.revision).has(key)).length;
    while (left.length > 0) {
      const together = left.filter(({ revision }) => revision === left[0]?.revision);
      const next = together.reduce((most, each) => (weight(each) > weight(most) ? each : most));
      left.splice(left.indexOf(next), 1);
      this.apply(next.writes, next.revision);
    }
  }

  /** The keys and entries as of a revision. */
  at(revision: Revision): ReadonlyMap<string, Entry> {
    let low = 0;
    for (let high = this.#states.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if ((this.#states[middle]?.revision ?? 0) <= revision) low = middle;
      else high = middle;
    }
    return this.#states[low]?.entries ?? new Map();
  }

  range(prefix: string, revision: Revision, after?: string): Entry[] {
    return [...this.at(revision).values()]
      .filter(({ key }) => key.startsWith(prefix) && (after === undefined || bytewise(key, after) > 0))
      .sort((a, b) => bytewise(a.key, b.key));
  }

  changes(prefix: string, after: Revision, upTo: Revision = Infinity): Change[] {
    return this.#states.flatMap((state) =>
      state.revision > after && state.revision <= upTo ? state.changes.filter((change) => keyOf(change).startsWith(prefix)) : [],
    );
  }
}

/** Changes line by line; those of one revision in order of keys, which is not promised. */
export function showChanges(changes: readonly Change[]): string[] {
  return [...changes].sort((a, b) => revisionOf(a) - revisionOf(b) || bytewise(keyOf(a), keyOf(b))).map(showChange);
}

export type { Change, Commit, Entry, Expectation, Revision, StorageDriver, Write };
