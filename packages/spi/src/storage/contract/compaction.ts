import fc from 'fast-check';
import { expect } from 'vitest';
import { bytes, codeOf, showChanges, showEntries, text, type StorageHarness, type Revision, type Suite } from './harness.ts';
import { StorageModel } from './storage-model.ts';

/** Returns the error of a watch that must fail. */
async function watchFailure(harness: StorageHarness, prefix: string, after: Revision): Promise<unknown> {
  return harness.watch(prefix, after).waitForFailure();
}
const compacted = { name: 'StorageError', code: 'Compacted' };

export function compactionContract({ test }: Suite): void {
  test('rejects older revisions, and keeps the others', async (harness) => {
    const one = await harness.put('/a', '1');
    const two = await harness.put('/a', '2');
    const three = await harness.put('/a', '3');
    await harness.delete('/b');
    const four = await harness.put('/b', '4');
    await harness.driver.compact(three);
    for (const revision of [one, two]) {
      expect(await codeOf(harness.driver.get('/a', { revision }))).toBe('Compacted');
      expect(await codeOf(harness.driver.range({ prefix: '/', revision }))).toBe('Compacted');
      expect(await watchFailure(harness, '/', revision)).toMatchObject(compacted);
    }
    for (const revision of [three, four]) expect(text((await harness.driver.get('/a', { revision })).entry!.value)).toBe('3');
    const recording = harness.watch('/', three);
    await recording.waitForRevision(four);
    expect(showChanges(recording.changes)).toEqual([`put "/b" = "4" @${four} of ${four}`]);
  });

  test('keeps every later revision readable, for any history', async (harness) => {
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
          const model = new StorageModel(await harness.driver.requestProgress());
          for (const commit of commits) {
            const writes = commit.map(({ key, remove }) => ({
              key: root + key,
              value: remove ? null : bytes(`${model.revisions.length}`),
            }));
            model.apply(writes, await harness.write(writes));
          }
          let cut = 0;
          for (const number of cuts) {
            const revision = model.revisions[number % model.revisions.length]!;
            await harness.driver.compact(revision);
            cut = Math.max(cut, revision);
            for (const at of model.revisions) {
              if (at < cut) {
                expect(await codeOf(harness.driver.range({ prefix: root, revision: at }))).toBe('Compacted');
                expect(await codeOf(harness.driver.get(`${root}a`, { revision: at }))).toBe('Compacted');
                continue;
              }
              expect(showEntries((await harness.driver.range({ prefix: root, revision: at })).entries)).toEqual(
                showEntries(model.range(root, at)),
              );
              const recording = harness.watch(root, at);
              await recording.waitForRevision(model.revision);
              expect(showChanges(recording.changes)).toEqual(showChanges(model.changes(root, at)));
              await recording.stop();
            }
            if (cut > model.revisions[0]!) expect(await watchFailure(harness, root, model.revisions[0]!)).toMatchObject(compacted);
          }
          const write = { key: `${root}a`, value: bytes('after') };
          const before = model.at(model.revision).get(write.key);
          const revision = await harness.write([write], [{ key: write.key, revision: before?.revision ?? 0 }]);
          expect((await harness.driver.get(write.key)).entry).toMatchObject({ revision, created: before?.created ?? revision });
        },
      ),
      { numRuns: Math.ceil(harness.runs / 2) },
    );
  });

  test('keeps existing keys, and forgets deleted ones', async (harness) => {
    await harness.fill(['/a', '/b', '/c']);
    await harness.delete('/b');
    const newest = await harness.put('/a', 'again');
    await harness.driver.compact(newest);
    const page = await harness.driver.range({ prefix: '/' });
    expect(page.entries.map((entry) => [entry.key, text(entry.value)])).toEqual([
      ['/a', 'again'],
      ['/c', '/c'],
    ]);
    const revision = await harness.write([{ key: '/b', value: bytes('new') }], [{ key: '/b', revision: 0 }]);
    expect((await harness.driver.get('/b')).entry).toMatchObject({ revision, created: revision });
  });

  test('does not disturb a watch that has caught up', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recording = harness.watch('/', base);
    const writes = 20;
    for (let at = 0; at < writes; at += 1) {
      const revision = at % 4 === 3 ? await harness.delete('/a') : await harness.put('/a', `${at}`);
      await recording.waitForRevision(revision);
      await harness.driver.compact(revision);
    }
    expect(recording.changes).toHaveLength(writes);
    expect(recording.changes.filter((change) => change.previous !== undefined)).toHaveLength(15);
  });

  test('fails the next page of a list whose revision was compacted', async (harness) => {
    await harness.fill(['/a', '/b', '/c']);
    const first = await harness.driver.range({ prefix: '/', limit: 1 });
    const newest = await harness.put('/d', 'd');
    await harness.driver.compact(newest);
    expect(await codeOf(harness.driver.range({ prefix: '/', limit: 1, after: '/a', revision: first.revision }))).toBe('Compacted');
    expect((await harness.pages({ prefix: '/', limit: 1 })).map((entry) => entry.key)).toEqual(['/a', '/b', '/c', '/d']);
  });

  test('is idempotent, ignores older revisions, and rejects future ones', async (harness) => {
    const one = await harness.put('/a', '1');
    const two = await harness.put('/a', '2');
    await harness.driver.compact(two);
    await harness.driver.compact(two);
    await harness.driver.compact(one);
    expect(text((await harness.driver.get('/a', { revision: two })).entry!.value)).toBe('2');
    expect(await codeOf(harness.driver.compact((await harness.driver.requestProgress()) + 1_000_000))).toBe('FutureRevision');
    expect(text((await harness.driver.get('/a')).entry!.value)).toBe('2');
  });
}
