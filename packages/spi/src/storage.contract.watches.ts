import fc from 'fast-check';
import { expect } from 'vitest';
import {
  bytes,
  codeOf,
  keyOf,
  Model,
  revisionOf,
  showChanges,
  type Bench,
  type Change,
  type Revision,
  type Write,
} from './storage.contract.bench.ts';
import type { Recording, StorageFixture } from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';

type Operation =
  | { readonly type: 'write'; readonly writes: readonly { readonly key: string; readonly remove: boolean }[] }
  | { readonly type: 'watch'; readonly prefix: string; readonly back: number }
  | { readonly type: 'progress' }
  | { readonly type: 'stop'; readonly which: number };

const names = ['a/1', 'a/2', 'a/😀', 'ab/1', 'b/1', 'b/～', 'b', 'c_/1', 'cx/1'];
const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('write' as const),
      writes: fc.uniqueArray(fc.record({ key: fc.constantFrom(...names), remove: fc.boolean() }), {
        minLength: 1,
        maxLength: 4,
        selector: ({ key }) => key,
      }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('watch' as const),
      prefix: fc.constantFrom('', 'a', 'a/', 'a/😀', 'b', 'b/', 'c_', 'none'),
      back: fc.nat(20),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('progress' as const) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('stop' as const), which: fc.nat() }) },
);

/** Reads one batch after the other, by hand. */
function reader(bench: Bench, prefix: string, after: Revision) {
  const abort = new AbortController();
  const batches = bench.driver.watch(prefix, { after, signal: abort.signal })[Symbol.asyncIterator]();
  return { abort, next: () => batches.next(), return: () => batches.return?.() };
}

const lagUnknown = ({ lagBytes }: StorageFixture) =>
  lagBytes === undefined ? 'the fixture does not say when a watch is cut off' : undefined;

export function watchContract({ test, testUnless }: Suite): void {
  test('says that it has caught up, also where nothing happens', async (bench) => {
    const base = await bench.driver.requestProgress();
    const quiet = bench.watch('/none/', base);
    await quiet.until(() => quiet.batches.length > 0);
    expect(quiet.batches[0]).toMatchObject({ changes: [] });
    expect(quiet.position).toBeGreaterThanOrEqual(base);

    const last = await bench.fill(['/a', '/b', '/c']);
    const late = bench.watch('/', base);
    await late.until(() => late.batches.some((batch) => batch.changes.length === 0));
    expect(late.position).toBeGreaterThanOrEqual(last);
    expect(late.changes).toHaveLength(3);
  });

  test('delivers what happened and what happens, with what stood there before', async (bench) => {
    const base = await bench.driver.requestProgress();
    const one = await bench.put('/pods/a', '1');
    const two = await bench.put('/pods/a', '2');
    const recording = bench.watch('/pods/', base);
    await recording.reached(two);
    await bench.put('/nodes/n', 'not watched');
    const three = await bench.delete('/pods/a');
    const four = await bench.put('/pods/a', '4');
    await recording.reached(four);
    expect(showChanges(recording.changes)).toEqual([
      `put "/pods/a" = "1" @${one} of ${one}`,
      `put "/pods/a" = "2" @${two} of ${one} over "/pods/a" = "1" @${one} of ${one}`,
      `delete @${three} "/pods/a" = "2" @${two} of ${one}`,
      `put "/pods/a" = "4" @${four} of ${four}`,
    ]);
  });

  test('delivers, from every revision, exactly what came after it', async (bench) => {
    const model = new Model(await bench.driver.requestProgress());
    for (let at = 0; at < 40; at += 1) {
      const writes = [
        { key: `/k${at % 7}`, value: at % 5 === 4 ? null : bytes(`${at}`) },
        { key: `/other/${at}`, value: bytes('x') },
      ];
      model.apply(writes, await bench.write(writes));
    }
    await Promise.all(
      model.revisions.map(async (after) => {
        const recording = bench.watch('/k', after);
        await recording.reached(model.revision);
        expect(showChanges(recording.changes)).toEqual(showChanges(model.changes('/k', after)));
      }),
    );
  });

  test('agrees with a model, for any writes and any watches on the way', async (bench) => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 60 }), fc.boolean(), async (operations, together) => {
        const root = `/round-${round++}/`;
        const model = new Model(await bench.driver.requestProgress());
        const open: Recording[] = [];
        const all: Recording[] = [];
        const running: Promise<{ writes: Write[]; revision: Revision }>[] = [];
        const finish = async () => model.applyAll(await Promise.all(running.splice(0)));
        for (const step of operations) {
          if (step.type === 'write') {
            const writes = step.writes.map(({ key, remove }) => ({
              key: root + key,
              value: remove ? null : bytes(`${model.revisions.length}`),
            }));
            running.push(bench.write(writes).then((revision) => ({ writes, revision })));
            // together: watches are opened while writes are under way, so at a revision that is not the model's newest any more
            if (!together || running.length >= 3) await finish();
          } else if (step.type === 'watch') {
            const after = model.revisions.at(-1 - Math.min(step.back, model.revisions.length - 1))!;
            const recording = bench.watch(root + step.prefix, after);
            open.push(recording);
            all.push(recording);
          } else if (step.type === 'progress') {
            await bench.driver.requestProgress();
          } else if (open.length > 0) {
            await open.splice(step.which % open.length, 1)[0]!.stop();
          }
        }
        await finish();
        const newest = await bench.driver.requestProgress();
        for (const recording of open) await recording.reached(newest);
        for (const recording of all) {
          expect(showChanges(recording.changes)).toEqual(showChanges(model.changes(recording.prefix, recording.after, recording.position)));
          if (open.includes(recording)) await recording.stop();
        }
      }),
      { numRuns: bench.runs },
    );
  });

  test('delivers to many watches, each once', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recordings = Array.from({ length: 300 }, (_, at) => bench.watch(at % 3 === 0 ? '/' : at % 3 === 1 ? `/k${at % 10}` : '/k', base));
    let last = 0;
    for (let at = 0; at < 30; at += 1) last = await bench.put(`/k${at % 10}`, `${at}`);
    for (const recording of recordings) await recording.until(() => recording.changes.length >= (recording.prefix.length === 3 ? 3 : 30));
    await bench.driver.requestProgress();
    for (const recording of recordings) {
      await recording.reached(last);
      expect(recording.changes).toHaveLength(recording.prefix.length === 3 ? 3 : 30);
    }
  });

  test('never parts the changes of one commit', async (bench) => {
    const recording = bench.watch('/', await bench.driver.requestProgress());
    const keys = Array.from({ length: 100 }, (_, at) => `/key-${at}`);
    // the second time, values and what they replace are more than one message of usual size
    const large = 'x'.repeat(13_000);
    const one = await bench.write(keys.map((key) => ({ key, value: bytes(`${large}1`) })));
    const two = await bench.write(keys.map((key) => ({ key, value: bytes(`${large}2`) })));
    const three = await bench.write(keys.map((key) => ({ key, value: null })));
    await recording.reached(three);
    expect(
      recording.changes
        .filter((change) => revisionOf(change) === two)
        .map(keyOf)
        .sort(),
    ).toEqual([...keys].sort());
    const others: Revision[] = [];
    for (let at = 0; at < 40; at += 1) others.push(await bench.write(keys.slice(0, 70).map((key) => ({ key, value: bytes(`${at}`) }))));
    await recording.reached(others.at(-1)!);
    const late = [bench.watch('/', recording.after), bench.watch('/key-1', recording.after)];
    for (const watch of late) await watch.reached(others.at(-1)!);
    for (const { batches } of [recording, ...late]) {
      const holding = batches.flatMap((batch) => [...new Set(batch.changes.map(revisionOf))]);
      expect(holding).toEqual([one, two, three, ...others]);
    }
    expect(late[0]!.changes).toHaveLength(300 + 40 * 70);
    expect(late[1]!.changes).toHaveLength(33 + 40 * 11);
  });

  test('reports progress on request to every watch, without a write, and never too early', async (bench) => {
    const base = await bench.driver.requestProgress();
    const quiet = [bench.watch('/none/', base), bench.watch('/quiet', base), bench.watch('', base)];
    const busy = bench.watch('/busy/', base);
    // what came after a report that it was seen already makes a recording fail
    for (let at = 0; at < 20; at += 1) {
      const writing = Promise.all(Array.from({ length: 5 }, (_, key) => bench.put(`/busy/${key}`, `${at}`)));
      const asked = await Promise.all([bench.driver.requestProgress(), bench.driver.requestProgress()]);
      const written = await writing;
      const newest = await bench.driver.requestProgress();
      expect(newest).toBeGreaterThanOrEqual(Math.max(...written, ...asked));
      for (const recording of [...quiet, busy]) await recording.reached(newest);
      expect(busy.changes).toHaveLength((at + 1) * 5);
    }
    const batches = quiet[0]!.batches.length;
    await bench.driver.requestProgress();
    await quiet[0]!.until(() => quiet[0]!.batches.length > batches);
    expect(quiet[0]!.changes).toEqual([]);
  });

  test('ends when its signal aborts, whatever it waits for', async (bench) => {
    const base = await bench.driver.requestProgress();
    const waiting = reader(bench, '/', base);
    expect(await waiting.next()).toMatchObject({ done: false, value: { changes: [] } });
    const pending = waiting.next();
    waiting.abort.abort();
    expect(await pending).toMatchObject({ done: true });
    expect(await waiting.next()).toMatchObject({ done: true });

    const other = bench.watch('/', base);
    const behind = reader(bench, '/', base);
    await behind.next();
    await bench.fill(['/a', '/b', '/c']);
    await other.until(() => other.changes.length === 3);
    behind.abort.abort();
    expect(await behind.next()).toMatchObject({ done: true });

    const never = reader(bench, '/', base);
    never.abort.abort();
    expect(await never.next()).toMatchObject({ done: true });

    const before = new AbortController();
    before.abort();
    for await (const batch of bench.driver.watch('/', { after: base, signal: before.signal })) expect(batch).toBe('nothing');

    const left = reader(bench, '/', base);
    await left.next();
    await left.return();
    expect(await left.next()).toMatchObject({ done: true });
    const last = await bench.put('/d', '4');
    await other.reached(last);
  });

  test('goes on after a break of the reader from where it was', async (bench) => {
    let after = await bench.driver.requestProgress();
    const seen: Change[] = [];
    const writing = (async () => {
      for (let at = 0; at < 60; at += 1) await bench.put(`/k${at % 3}`, `${at}`);
    })();
    while (seen.length < 60) {
      for await (const batch of bench.driver.watch('/', { after, signal: new AbortController().signal })) {
        seen.push(...batch.changes);
        after = batch.revision;
        if (batch.changes.length > 0) break;
      }
    }
    await writing;
    expect(seen.map((change) => (change.type === 'put' ? Buffer.from(change.entry.value).toString() : 'gone'))).toEqual(
      Array.from({ length: 60 }, (_, at) => `${at}`),
    );
  });

  test('refuses to watch from the future', async (bench) => {
    await bench.put('/a', '1');
    const future = (await bench.driver.requestProgress()) + 1_000_000;
    expect(await codeOf(reader(bench, '/', future).next())).toBe('FutureRevision');
    expect(await bench.watch('/', future).refused()).toMatchObject({ name: 'StorageError', code: 'FutureRevision' });
  });

  testUnless(lagUnknown, 'cuts off a reader that is too slow, and nobody else', async (bench) => {
    const lagBytes = bench.fixture.lagBytes ?? 0;
    const base = await bench.driver.requestProgress();
    const slow = reader(bench, '/big/', base);
    expect(await slow.next()).toMatchObject({ value: { changes: [] } });
    const witness = bench.watch('/big/', base);
    const chunk = Math.min(lagBytes, 64 * 1024);
    let writes = 0;
    for (let passed = 0; passed < 4 * lagBytes; passed += chunk) {
      await bench.put(`/big/${writes % 10}`, Buffer.alloc(chunk, writes));
      writes += 1;
    }
    await witness.reached(await bench.driver.requestProgress());
    expect(witness.changes).toHaveLength(writes);

    let position = base;
    let seen = 0;
    const outcome = await (async () => {
      for (;;) {
        const { value, done } = await slow.next();
        if (done) return 'ended';
        seen += value.changes.length;
        position = value.revision;
      }
    })().catch((error: unknown) => error);
    expect(outcome).toMatchObject({ name: 'StorageError', code: 'Lagged' });
    expect(seen).toBeLessThan(writes);
    expect(await slow.next()).toMatchObject({ done: true });
    const anew = bench.watch('/big/', position);
    await anew.reached(witness.position);
    expect(anew.changes).toHaveLength(writes - seen);
    await slow.return();
  });
}
