import fc from 'fast-check';
import { expect } from 'vitest';
import { bytes, codeOf, Model, showChanges, showEntries, text, type Bench, type Revision } from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';

/** How a watch from `after` ends that must not begin. */
async function refusal(bench: Bench, prefix: string, after: Revision): Promise<unknown> {
  return bench.watch(prefix, after).refused();
}
const compacted = { name: 'StorageError', code: 'Compacted' };

export function compactionContract({ test }: Suite): void {
  test('refuses what is older, and keeps what is not', async (bench) => {
    const one = await bench.put('/a', '1');
    const two = await bench.put('/a', '2');
    const three = await bench.put('/a', '3');
    await bench.delete('/b');
    const four = await bench.put('/b', '4');
    await bench.driver.compact(three);
    for (const revision of [one, two]) {
      expect(await codeOf(bench.driver.get('/a', { revision }))).toBe('Compacted');
      expect(await codeOf(bench.driver.range({ prefix: '/', revision }))).toBe('Compacted');
      expect(await refusal(bench, '/', revision)).toMatchObject(compacted);
    }
    for (const revision of [three, four]) expect(text((await bench.driver.get('/a', { revision })).entry!.value)).toBe('3');
    const recording = bench.watch('/', three);
    await recording.reached(four);
    expect(showChanges(recording.changes)).toEqual([`put "/b" = "4" @${four} of ${four}`]);
  });

  test('keeps everything readable at the revision and later, for any history', async (bench) => {
    const names = ['a', 'b', 'c', 'd'];
    let round = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.uniqueArray(fc.record({ key: fc.constantFrom(...names), remove: fc.boolean() }), {
            minLength: 1,
            maxLength: 3,
            selector: ({ key }) => key,
          }),
          { minLength: 2, maxLength: 25 },
        ),
        fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
        async (commits, cuts) => {
          const root = `/round-${round++}/`;
          const model = new Model(await bench.driver.requestProgress());
          for (const commit of commits) {
            const writes = commit.map(({ key, remove }) => ({
              key: root + key,
              value: remove ? null : bytes(`${model.revisions.length}`),
            }));
            model.apply(writes, await bench.write(writes));
          }
          let cut = 0;
          for (const number of cuts) {
            const revision = model.revisions[number % model.revisions.length]!;
            await bench.driver.compact(revision);
            cut = Math.max(cut, revision);
            for (const at of model.revisions) {
              if (at < cut) {
                expect(await codeOf(bench.driver.range({ prefix: root, revision: at }))).toBe('Compacted');
                expect(await codeOf(bench.driver.get(`${root}a`, { revision: at }))).toBe('Compacted');
                continue;
              }
              expect(showEntries((await bench.driver.range({ prefix: root, revision: at })).entries)).toEqual(
                showEntries(model.range(root, at)),
              );
              const recording = bench.watch(root, at);
              await recording.reached(model.revision);
              expect(showChanges(recording.changes)).toEqual(showChanges(model.changes(root, at)));
              await recording.stop();
            }
            if (cut > model.revisions[0]!) expect(await refusal(bench, root, model.revisions[0]!)).toMatchObject(compacted);
          }
          const write = { key: `${root}a`, value: bytes('after') };
          const before = model.at(model.revision).get(write.key);
          const revision = await bench.write([write], [{ key: write.key, revision: before?.revision ?? 0 }]);
          expect((await bench.driver.get(write.key)).entry).toMatchObject({ revision, created: before?.created ?? revision });
        },
      ),
      { numRuns: Math.ceil(bench.runs / 2) },
    );
  });

  test('forgets nothing that stands, and everything that is gone', async (bench) => {
    await bench.fill(['/a', '/b', '/c']);
    await bench.delete('/b');
    const newest = await bench.put('/a', 'again');
    await bench.driver.compact(newest);
    const page = await bench.driver.range({ prefix: '/' });
    expect(page.entries.map((entry) => [entry.key, text(entry.value)])).toEqual([
      ['/a', 'again'],
      ['/c', '/c'],
    ]);
    const revision = await bench.write([{ key: '/b', value: bytes('new') }], [{ key: '/b', revision: 0 }]);
    expect((await bench.driver.get('/b')).entry).toMatchObject({ revision, created: revision });
  });

  test('does not disturb a watch that has caught up', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recording = bench.watch('/', base);
    const writes = 20;
    for (let at = 0; at < writes; at += 1) {
      const revision = at % 4 === 3 ? await bench.delete('/a') : await bench.put('/a', `${at}`);
      await recording.reached(revision);
      await bench.driver.compact(revision);
    }
    expect(recording.changes).toHaveLength(writes);
    expect(recording.changes.filter((change) => change.previous !== undefined)).toHaveLength(15);
  });

  test('ends a list in pages that it overtakes', async (bench) => {
    await bench.fill(['/a', '/b', '/c']);
    const first = await bench.driver.range({ prefix: '/', limit: 1 });
    const newest = await bench.put('/d', 'd');
    await bench.driver.compact(newest);
    expect(await codeOf(bench.driver.range({ prefix: '/', limit: 1, after: '/a', revision: first.revision }))).toBe('Compacted');
    expect((await bench.pages({ prefix: '/', limit: 1 })).map((entry) => entry.key)).toEqual(['/a', '/b', '/c', '/d']);
  });

  test('is done once: again, or before, does nothing; in the future is refused', async (bench) => {
    const one = await bench.put('/a', '1');
    const two = await bench.put('/a', '2');
    await bench.driver.compact(two);
    await bench.driver.compact(two);
    await bench.driver.compact(one);
    expect(text((await bench.driver.get('/a', { revision: two })).entry!.value)).toBe('2');
    expect(await codeOf(bench.driver.compact((await bench.driver.requestProgress()) + 1_000_000))).toBe('FutureRevision');
    expect(text((await bench.driver.get('/a')).entry!.value)).toBe('2');
  });
}
