import type {
  Change,
  ChangeBatch,
  CommitResult,
  Entry,
  Precondition,
  Page,
  RangeOptions,
  Revision,
  StorageDriver,
  Write,
} from '../storage.ts';
import { StorageError } from '../storage.ts';

/** Access to the storage driver under test, provided by the package of the driver. */
export interface StorageFixture {
  /** A storage driver over an empty store without other writers. The revisions of the store need not begin at 0. */
  readonly driver: StorageDriver;
  /** Closes the driver and removes its data. */
  dispose(): Promise<void>;
  /** Returns a new driver over the same data after an abrupt end (as SIGKILL, not a close). Required if the driver is `durable`. */
  reopen?(): Promise<StorageDriver>;
  /** Advances the driver's clock. Absent: the suite waits for expiries in real time. */
  tick?(ms: number): void | Promise<void>;
  /** Returns the units of work so far: index entries visited, or requests sent. If absent, the cost tests are skipped. */
  cost?(): number;
  /** Size of values in bytes at which a watch without a reader is canceled. If absent, the test is skipped. */
  readonly lagBytes?: number;
}

export interface StorageContractOptions {
  /** Number of runs of each property test. Default 25. */
  readonly runs?: number;
  /** The reason why the store cannot run on this machine; the suite is then one skipped test. */
  readonly unavailable?: string;
}

export const bytes = (text: string): Uint8Array => Buffer.from(text);
export const text = (value: Uint8Array): string => Buffer.from(value).toString();
/** Compares keys by their UTF-8 bytes. */
export const bytewise = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

const show = ({ key, value, revision, created }: Entry) =>
  `${JSON.stringify(key)} = ${value.length > 64 ? `${value.length} bytes ${Buffer.from(value.subarray(0, 8)).toString('hex')}` : JSON.stringify(text(value))} @${revision} of ${created}`;

/** Formats a change on one line, so that lists of changes compare fast and differ readably. */
export function showChange(change: Change): string {
  return change.type === 'put'
    ? `put ${show(change.entry)}${change.previous ? ` over ${show(change.previous)}` : ''}`
    : `delete @${change.revision} ${show(change.previous)}`;
}
export const showEntries = (entries: Iterable<Entry>): string[] => [...entries].map(show);
export const keyOf = (change: Change): string => (change.type === 'put' ? change.entry.key : change.previous.key);
export const revisionOf = (change: Change): Revision => (change.type === 'put' ? change.entry.revision : change.revision);

/** Reads one watch continuously, and checks the order of its changes. */
export class WatchRecorder {
  readonly changes: Change[] = [];
  readonly batches: ChangeBatch[] = [];
  readonly prefix: string;
  readonly after: Revision;
  /** All changes up to this revision were delivered. */
  position: Revision;
  failure: unknown;
  ended = false;
  readonly #abort = new AbortController();
  readonly #done: Promise<void>;
  #failureExpected = false;
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
      if (revision <= this.position) throw new Error(`reported progress to ${this.position}, then delivered ${showChange(change)}`);
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

  /** Resolves when `condition` returns true. @throws the error that ends the watch before */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.failure !== undefined) throw this.failure;
      if (this.ended) throw new Error('the watch ended');
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  /** Resolves when the watch has delivered everything up to `revision`. */
  waitForRevision(revision: Revision): Promise<void> {
    return this.until(() => this.position >= revision);
  }

  /** Resolves with the error that ended the watch, or undefined. */
  async waitForFailure(): Promise<unknown> {
    this.#failureExpected = true;
    await this.#done;
    return this.failure;
  }

  /** @throws the error that ended the watch before this call, unless `refused` was called */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#done;
    if (this.failure !== undefined && !this.#failureExpected) throw this.failure;
  }
}

/** A driver under test, with methods to write, and to close watches after each test. */
export class StorageHarness {
  readonly fixture: StorageFixture;
  readonly driver: StorageDriver;
  readonly runs: number;
  readonly #recordings: WatchRecorder[] = [];

  constructor(fixture: StorageFixture, runs: number) {
    this.fixture = fixture;
    this.driver = fixture.driver;
    this.runs = runs;
  }

  watch(prefix: string, after: Revision, driver: StorageDriver = this.driver): WatchRecorder {
    const recording = new WatchRecorder(driver, prefix, after);
    this.#recordings.push(recording);
    return recording;
  }

  /** @throws Error if a precondition failed */
  async write(writes: readonly Write[], expect: readonly Precondition[] = []): Promise<Revision> {
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

  /** Writes many keys, 100 per commit. Resolves with the last revision. */
  async fill(keys: readonly string[], value: (key: string) => string = (key) => key): Promise<Revision> {
    let revision = 0;
    for (let at = 0; at < keys.length; at += 100) {
      revision = await this.write(keys.slice(at, at + 100).map((key) => ({ key, value: bytes(value(key)) })));
    }
    return revision;
  }

  /** Returns all pages of a range at one revision. `between` runs after each page. */
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

  /** Returns the units of work that `work` causes; 0 if the fixture does not count them. */
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

/** Returns the code of the StorageError that `work` throws. @throws Error if it throws nothing or another error */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof StorageError) return error.code;
    throw error;
  }
  throw new Error('it did not fail');
}

/** Formats changes, one per line. Those of one revision are sorted by key, because their order is undefined. */
export function showChanges(changes: readonly Change[]): string[] {
  return [...changes].sort((a, b) => revisionOf(a) - revisionOf(b) || bytewise(keyOf(a), keyOf(b))).map(showChange);
}

export type { Change, CommitResult, Entry, Precondition, Revision, StorageDriver, Write };

/** Declares the tests of one part of the suite. Each test gets a fixture of its own. */
export interface Suite {
  test(title: string, body: (harness: StorageHarness) => Promise<void>): void;
  /** Declares a test that requires an optional part of the fixture. If `unsupportedReason` returns a reason, the test is skipped with this reason. */
  testUnless(
    unsupportedReason: (fixture: StorageFixture) => string | undefined,
    title: string,
    body: (harness: StorageHarness) => Promise<void>,
  ): void;
}
