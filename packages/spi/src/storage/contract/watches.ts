import fc from 'fast-check';
import { expect } from 'vitest';
import {
  bytes,
  codeOf,
  keyOf,
  revisionOf,
  showChanges,
  type StorageHarness,
  type Change,
  type Revision,
  type Write,
  type Suite,
} from './harness.ts';
import type { WatchRecorder, StorageFixture } from './harness.ts';
import { StorageModel } from './storage-model.ts';

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

/** Reads one batch at a time. */
function reader(harness: StorageHarness, prefix: string, after: Revision) {
  const abort = new AbortController();
  const batches = harness.driver.watch(prefix, { after, signal: abort.signal })[Symbol.asyncIterator]();
  return { abort, next: () => batches.next(), return: () => batches.return?.() };
}

const lagUnknown = ({ lagBytes }: StorageFixture) => (lagBytes === undefined ? 'the fixture has no lagBytes' : undefined);

export function watchContract({ test, testUnless }: Suite): void {
  test('reports progress when it has caught up, also without changes', async (harness) => {
    const base = await harness.driver.requestProgress();
    const quiet = harness.watch('/none/', base);
    await quiet.until(() => quiet.batches.length > 0);
    expect(quiet.batches[0]).toMatchObject({ changes: [] });
    expect(quiet.position).toBeGreaterThanOrEqual(base);

    const last = await harness.fill(['/a', '/b', '/c']);
    const late = harness.watch('/', base);
    await late.until(() => late.batches.some((batch) => batch.changes.length === 0));
    expect(late.position).toBeGreaterThanOrEqual(last);
    expect(late.changes).toHaveLength(3);
  });

  test('delivers past and new changes, with the previous entries', async (harness) => {
    const base = await harness.driver.requestProgress();
    const one = await harness.put('/pods/a', '1');
    const two = await harness.put('/pods/a', '2');
    const recording = harness.watch('/pods/', base);
    await recording.waitForRevision(two);
    await harness.put('/nodes/n', 'not watched');
    const three = await harness.delete('/pods/a');
    const four = await harness.put('/pods/a', '4');
    await recording.waitForRevision(four);
    expect(showChanges(recording.changes)).toEqual([
      `put "/pods/a" = "1" @${one} of ${one}`,
      `put "/pods/a" = "2" @${two} of ${one} over "/pods/a" = "1" @${one} of ${one}`,
      `delete @${three} "/pods/a" = "2" @${two} of ${one}`,
      `put "/pods/a" = "4" @${four} of ${four}`,
    ]);
  });

  test('delivers, from every revision, exactly the later changes', async (harness) => {
    const model = new StorageModel(await harness.driver.requestProgress());
    for (let at = 0; at < 40; at += 1) {
      const writes = [
        { key: `/k${at % 7}`, value: at % 5 === 4 ? null : bytes(`${at}`) },
        { key: `/other/${at}`, value: bytes('x') },
      ];
      model.apply(writes, await harness.write(writes));
    }
    await Promise.all(
      model.revisions.map(async (after) => {
        const recording = harness.watch('/k', after);
        await recording.waitForRevision(model.revision);
        expect(showChanges(recording.changes)).toEqual(showChanges(model.changes('/k', after)));
      }),
    );
  });

  test('agrees with a model, for any writes and concurrent watches', async (harness) => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 60 }), fc.boolean(), async (operations, together) => {
        const root = `/round-${round++}/`;
        const model = new StorageModel(await harness.driver.requestProgress());
        const open: WatchRecorder[] = [];
        const all: WatchRecorder[] = [];
        const running: Promise<{ writes: Write[]; revision: Revision }>[] = [];
        const finish = async () => model.applyAll(await Promise.all(running.splice(0)));
        for (const step of operations) {
          if (step.type === 'write') {
            const writes = step.writes.map(({ key, remove }) => ({
              key: root + key,
              value: remove ? null : bytes(`${model.revisions.length}`),
            }));
            running.push(harness.write(writes).then((revision) => ({ writes, revision })));
            // together: watches are opened during writes, so at a revision that is older than the model's newest
            if (!together || running.length >= 3) await finish();
          } else if (step.type === 'watch') {
            const after = model.revisions.at(-1 - Math.min(step.back, model.revisions.length - 1))!;
            const recording = harness.watch(root + step.prefix, after);
            open.push(recording);
            all.push(recording);
          } else if (step.type === 'progress') {
            await harness.driver.requestProgress();
          } else if (open.length > 0) {
            await open.splice(step.which % open.length, 1)[0]!.stop();
          }
        }
        await finish();
        const newest = await harness.driver.requestProgress();
        for (const recording of open) await recording.waitForRevision(newest);
        for (const recording of all) {
          expect(showChanges(recording.changes)).toEqual(showChanges(model.changes(recording.prefix, recording.after, recording.position)));
          if (open.includes(recording)) await recording.stop();
        }
      }),
      { numRuns: harness.runs },
    );
  });

  test('delivers each change once to each of many watches', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recordings = Array.from({ length: 300 }, (_, at) =>
      harness.watch(at % 3 === 0 ? '/' : at % 3 === 1 ? `/k${at % 10}` : '/k', base),
    );
    let last = 0;
    for (let at = 0; at < 30; at += 1) last = await harness.put(`/k${at % 10}`, `${at}`);
    for (const recording of recordings) await recording.until(() => recording.changes.length >= (recording.prefix.length === 3 ? 3 : 30));
    await harness.driver.requestProgress();
    for (const recording of recordings) {
      await recording.waitForRevision(last);
      expect(recording.changes).toHaveLength(recording.prefix.length === 3 ? 3 : 30);
    }
  });

  test('never splits the changes of one commit', async (harness) => {
    const recording = harness.watch('/', await harness.driver.requestProgress());
    const keys = Array.from({ length: 100 }, (_, at) => `/key-${at}`);
    // in the second commit, values and previous values exceed one message of usual size
    const large = 'x'.repeat(13_000);
    const one = await harness.write(keys.map((key) => ({ key, value: bytes(`${large}1`) })));
    const two = await harness.write(keys.map((key) => ({ key, value: bytes(`${large}2`) })));
    const three = await harness.write(keys.map((key) => ({ key, value: null })));
    await recording.waitForRevision(three);
    expect(
      recording.changes
        .filter((change) => revisionOf(change) === two)
        .map(keyOf)
        .sort(),
    ).toEqual([...keys].sort());
    const others: Revision[] = [];
    for (let at = 0; at < 40; at += 1) others.push(await harness.write(keys.slice(0, 70).map((key) => ({ key, value: bytes(`${at}`) }))));
    await recording.waitForRevision(others.at(-1)!);
    const late = [harness.watch('/', recording.after), harness.watch('/key-1', recording.after)];
    for (const watch of late) await watch.waitForRevision(others.at(-1)!);
    for (const { batches } of [recording, ...late]) {
      const holding = batches.flatMap((batch) => [...new Set(batch.changes.map(revisionOf))]);
      expect(holding).toEqual([one, two, three, ...others]);
    }
    expect(late[0]!.changes).toHaveLength(300 + 40 * 70);
    expect(late[1]!.changes).toHaveLength(33 + 40 * 11);
  });

  test('reports progress on request to every watch, without a write, and never too early', async (harness) => {
    const base = await harness.driver.requestProgress();
    const quiet = [harness.watch('/none/', base), harness.watch('/quiet', base), harness.watch('', base)];
    const busy = harness.watch('/busy/', base);
    // a recording fails if a change arrives after progress was reported past it
    for (let at = 0; at < 20; at += 1) {
      const writing = Promise.all(Array.from({ length: 5 }, (_, key) => harness.put(`/busy/${key}`, `${at}`)));
      const requested = await Promise.all([harness.driver.requestProgress(), harness.driver.requestProgress()]);
      const revisions = await writing;
      const newest = await harness.driver.requestProgress();
      expect(newest).toBeGreaterThanOrEqual(Math.max(...revisions, ...requested));
      for (const recording of [...quiet, busy]) await recording.waitForRevision(newest);
      expect(busy.changes).toHaveLength((at + 1) * 5);
    }
    const batches = quiet[0]!.batches.length;
    await harness.driver.requestProgress();
    await quiet[0]!.until(() => quiet[0]!.batches.length > batches);
    expect(quiet[0]!.changes).toEqual([]);
  });

  test('ends when its signal aborts, in every state', async (harness) => {
    const base = await harness.driver.requestProgress();
    const waiting = reader(harness, '/', base);
    expect(await waiting.next()).toMatchObject({ done: false, value: { changes: [] } });
    const pending = waiting.next();
    waiting.abort.abort();
    expect(await pending).toMatchObject({ done: true });
    expect(await waiting.next()).toMatchObject({ done: true });

    const other = harness.watch('/', base);
    const behind = reader(harness, '/', base);
    await behind.next();
    await harness.fill(['/a', '/b', '/c']);
    await other.until(() => other.changes.length === 3);
    behind.abort.abort();
    expect(await behind.next()).toMatchObject({ done: true });

    const never = reader(harness, '/', base);
    never.abort.abort();
    expect(await never.next()).toMatchObject({ done: true });

    const before = new AbortController();
    before.abort();
    for await (const batch of harness.driver.watch('/', { after: base, signal: before.signal })) expect(batch).toBe('nothing');

    const left = reader(harness, '/', base);
    await left.next();
    await left.return();
    expect(await left.next()).toMatchObject({ done: true });
    const last = await harness.put('/d', '4');
    await other.waitForRevision(last);
  });

  test('continues from a revision after the reader stopped', async (harness) => {
    let after = await harness.driver.requestProgress();
    const seen: Change[] = [];
    const writing = (async () => {
      for (let at = 0; at < 60; at += 1) await harness.put(`/k${at % 3}`, `${at}`);
    })();
    while (seen.length < 60) {
      for await (const batch of harness.driver.watch('/', { after, signal: new AbortController().signal })) {
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

  test('rejects a future revision', async (harness) => {
    await harness.put('/a', '1');
    const future = (await harness.driver.requestProgress()) + 1_000_000;
    expect(await codeOf(reader(harness, '/', future).next())).toBe('FutureRevision');
    expect(await harness.watch('/', future).waitForFailure()).toMatchObject({ name: 'StorageError', code: 'FutureRevision' });
  });

  testUnless(lagUnknown, 'cancels a reader that is too slow, and no other', async (harness) => {
    const lagBytes = harness.fixture.lagBytes ?? 0;
    const base = await harness.driver.requestProgress();
    const slow = reader(harness, '/big/', base);
    expect(await slow.next()).toMatchObject({ value: { changes: [] } });
    const witness = harness.watch('/big/', base);
    const chunk = Math.min(lagBytes, 64 * 1024);
    let writes = 0;
    for (let passed = 0; passed < 4 * lagBytes; passed += chunk) {
      await harness.put(`/big/${writes % 10}`, Buffer.alloc(chunk, writes));
      writes += 1;
    }
    await witness.waitForRevision(await harness.driver.requestProgress());
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
    const anew = harness.watch('/big/', position);
    await anew.waitForRevision(witness.position);
    expect(anew.changes).toHaveLength(writes - seen);
    await slow.return();
  });
}
