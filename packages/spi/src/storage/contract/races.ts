import fc from 'fast-check';
import { expect } from 'vitest';
import {
  bytes,
  showEntries,
  text,
  type StorageHarness,
  type CommitResult,
  type Entry,
  type Precondition,
  type Revision,
  type Write,
  type Suite,
} from './harness.ts';
import { StorageModel } from './storage-model.ts';

/** One step of a writer: the keys that the step reads, and the keys that it writes after the read. */
interface Step {
  readonly reads: readonly number[];
  readonly writes: readonly { readonly key: number; readonly remove: boolean }[];
  /** `checked`: preconditions from this read; `stale`: from the previous read; `blind`: none; `look`: only reads the range. */
  readonly how: 'checked' | 'stale' | 'blind' | 'look';
}

interface Call {
  readonly start: number;
  readonly end: number;
}
interface CommitCall extends Call {
  readonly writes: readonly Write[];
  readonly expect: readonly Precondition[];
  readonly result: CommitResult;
}
interface ReadCall extends Call {
  readonly prefix: string;
  readonly revision: Revision;
  readonly entries: readonly Entry[];
}

const keys = 5;
const step: fc.Arbitrary<Step> = fc.record({
  reads: fc.uniqueArray(fc.nat(keys - 1), { minLength: 1, maxLength: 3 }),
  writes: fc.uniqueArray(fc.record({ key: fc.nat(keys - 1), remove: fc.boolean() }), {
    minLength: 1,
    maxLength: 3,
    selector: ({ key }) => key,
  }),
  how: fc.constantFrom('checked', 'checked', 'checked', 'stale', 'blind', 'look'),
});

/** Records every call, with the order in which calls started and ended. */
class History {
  readonly commits: CommitCall[] = [];
  readonly reads: ReadCall[] = [];
  readonly #harness: StorageHarness;
  readonly #prefix: string;
  #time = 0;
  #values = 0;

  constructor(harness: StorageHarness, prefix: string) {
    this.#harness = harness;
    this.#prefix = prefix;
  }

  key(number: number): string {
    return `${this.#prefix}${number}`;
  }

  async write(steps: readonly Step[]): Promise<void> {
    let seen = new Map<string, Revision>();
    for (const { reads, writes, how } of steps) {
      const before = seen;
      seen = how === 'look' ? await this.#readRange() : new Map(await Promise.all(reads.map((number) => this.#get(this.key(number)))));
      if (how === 'look') continue;
      const known = how === 'stale' ? before : seen;
      // a delete always has a precondition, so that its result shows whether it changed anything
      const expectations = how === 'blind' ? [] : [...known].map(([key, revision]) => ({ key, revision }));
      const sure = writes.filter(
        ({ key, remove }) => !remove || expectations.some((expectation) => expectation.key === this.key(key) && expectation.revision > 0),
      );
      await this.#commit(
        sure.map(({ key, remove }) => ({ key: this.key(key), value: remove ? null : bytes(`v${this.#values++}`) })),
        expectations,
      );
    }
  }

  async #get(key: string): Promise<[string, Revision]> {
    const start = this.#time++;
    const { entry, revision } = await this.#harness.driver.get(key);
    this.reads.push({ start, end: this.#time++, prefix: key, revision, entries: entry ? [entry] : [] });
    return [key, entry?.revision ?? 0];
  }

  async #readRange(): Promise<Map<string, Revision>> {
    const start = this.#time++;
    const { entries, revision } = await this.#harness.driver.range({ prefix: this.#prefix });
    this.reads.push({ start, end: this.#time++, prefix: this.#prefix, revision, entries });
    return new Map(entries.map((entry) => [entry.key, entry.revision]));
  }

  async #commit(writes: readonly Write[], expectations: readonly Precondition[]): Promise<void> {
    const start = this.#time++;
    const result = await this.#harness.driver.commit(writes, expectations);
    this.commits.push({ start, end: this.#time++, writes, expect: expectations, result });
  }

  /**
   * Checks that the calls are linearizable: that one order of all calls explains their results and agrees with real time.
   *
   * The revisions define this order, so no search is necessary: commits are replayed by revision, and every other call must fit
   * between the calls that ended before it started and those that started after it ended.
   */
  check(from: Revision): StorageModel {
    const model = new StorageModel(from);
    const effective = this.commits
      .flatMap((call) => (call.result.ok && call.writes.length > 0 ? [{ ...call, revision: call.result.revision }] : []))
      .sort((a, b) => a.revision - b.revision);
    for (const { writes, expect: expectations, revision } of effective) {
      const wrong = expectations.find((expectation) => (model.at(revision).get(expectation.key)?.revision ?? 0) !== expectation.revision);
      if (wrong)
        throw new Error(
          `the commit of ${revision} expected ${wrong.key} at ${wrong.revision}, it was at ${model.at(revision).get(wrong.key)?.revision ?? 0}`,
        );
      if (!model.apply(writes, revision)) throw new Error(`the commit of ${revision} changed nothing`);
    }
    const window = ({ start, end }: Call) => ({
      low: Math.max(from, ...effective.filter((call) => call.end < start).map((call) => call.revision)),
      high: Math.min(Infinity, ...effective.filter((call) => call.start > end).map((call) => call.revision)),
    });
    for (const call of effective) {
      const { low, high } = window(call);
      if (call.revision <= low || call.revision >= high)
        throw new Error(`the commit of ${call.revision} lies between ${low} and ${high} in time`);
    }
    for (const call of this.reads) {
      const { low, high } = window(call);
      if (call.revision < low || call.revision >= high)
        throw new Error(`a read at ${call.revision} lies between ${low} and ${high} in time`);
      expect(showEntries(call.entries)).toEqual(showEntries(model.range(call.prefix, call.revision)));
    }
    for (const call of this.commits) this.#checkUndone(call, model, window(call));
    return model;
  }

  /** Checks that a commit that wrote nothing is explained by a state that existed while the commit ran. */
  #checkUndone(
    { writes, expect: expectations, result }: CommitCall,
    model: StorageModel,
    { low, high }: { low: Revision; high: Revision },
  ): void {
    if (result.ok && writes.length > 0) return;
    const explains = (revision: Revision): boolean => {
      const state = model.at(revision);
      const wrong = expectations.find((expectation) => (state.get(expectation.key)?.revision ?? 0) !== expectation.revision);
      if (result.ok) return wrong === undefined;
      const current = state.get(result.key);
      return (
        wrong?.key === result.key &&
        current?.revision === result.current?.revision &&
        (current === undefined || text(current.value) === (result.current && text(result.current.value)))
      );
    };
    if (result.ok) {
      if (result.revision < low || result.revision >= high || !explains(result.revision))
        throw new Error(`a commit without writes is not explained by the state at ${result.revision}`);
    } else if (![low, ...model.revisions.filter((revision) => revision > low && revision < high)].some(explains)) {
      throw new Error(
        `a rejected commit reports ${result.key} at ${result.current?.revision ?? 0}: not true at any time from ${low} to before ${high}`,
      );
    }
  }
}

export function raceContract({ test }: Suite): void {
  test('lets one of many concurrent creates succeed', async (harness) => {
    const racers = await Promise.all(
      Array.from({ length: 50 }, (_, at) => harness.driver.commit([{ key: '/a', value: bytes(`${at}`) }], [{ key: '/a', revision: 0 }])),
    );
    const winners = racers.filter((commit) => commit.ok);
    expect(winners).toHaveLength(1);
    const { entry } = await harness.driver.get('/a');
    for (const commit of racers) if (!commit.ok) expect(showEntries([commit.current!])).toEqual(showEntries([entry!]));
  });

  test('loses no increment of concurrent writers', async (harness) => {
    await harness.put('/count', '0');
    const writer = async (times: number) => {
      for (let done = 0; done < times; ) {
        const { entry } = await harness.driver.get('/count');
        const { ok } = await harness.driver.commit(
          [{ key: '/count', value: bytes(`${Number(text(entry!.value)) + 1}`) }],
          [{ key: '/count', revision: entry!.revision }],
        );
        if (ok) done += 1;
      }
    };
    await Promise.all(Array.from({ length: 8 }, () => writer(10)));
    expect(text((await harness.driver.get('/count')).entry!.value)).toBe('80');
  });

  test('never shows a part of a commit', async (harness) => {
    let revisions = await harness
      .write([
        { key: '/from', value: bytes('500') },
        { key: '/to', value: bytes('500') },
      ])
      .then((revision) => ({ from: revision, to: revision }));
    let moving = true;
    const readRepeatedly = async () => {
      while (moving) {
        const { entries } = await harness.driver.range({ prefix: '/' });
        expect(entries.reduce((sum, entry) => sum + Number(text(entry.value)), 0)).toBe(1000);
        // reads from memory do not yield by themselves
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
      }
    };
    const readers = [readRepeatedly(), readRepeatedly()];
    for (let moved = 1; moved <= 100; moved += 1) {
      const revision = await harness.write(
        [
          { key: '/from', value: bytes(`${500 - moved}`) },
          { key: '/to', value: bytes(`${500 + moved}`) },
        ],
        [
          { key: '/from', revision: revisions.from },
          { key: '/to', revision: revisions.to },
        ],
      );
      revisions = { from: revision, to: revision };
    }
    moving = false;
    await Promise.all(readers);
  });

  test('is linearizable with many writers and preconditions on several keys', async (harness) => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 12 }), { minLength: 2, maxLength: 8 }), async (writers) => {
        const prefix = `/round-${round++}/`;
        const from = await harness.driver.requestProgress();
        const recording = harness.watch(prefix, from);
        const history = new History(harness, prefix);
        await Promise.all(writers.map((steps) => history.write(steps)));
        const model = history.check(from);
        await recording.waitForRevision(await harness.driver.requestProgress());
        await recording.stop();
        const seen = recording.changes.map((change) => (change.type === 'put' ? change.entry.revision : change.revision));
        expect(new Set(seen)).toEqual(new Set(model.revisions.slice(1)));
      }),
      { numRuns: harness.runs },
    );
  });
}
