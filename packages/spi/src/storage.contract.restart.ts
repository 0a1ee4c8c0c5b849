import { expect } from 'vitest';
import {
  bytes,
  codeOf,
  keyOf,
  revisionOf,
  showChanges,
  showEntries,
  text,
  type Revision,
  type StorageFixture,
} from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';
import { StorageError } from './storage.ts';

const lost = (fixture: StorageFixture): string | undefined => {
  if (fixture.reopen) return undefined;
  if (fixture.driver.traits.durable) throw new Error('the driver says that it is durable: its fixture must be able to reopen it');
  return 'the driver does not say that it is durable';
};

export function restartContract({ testUnless }: Suite): void {
  testUnless(lost, 'finds everything again after an abrupt end', async (bench) => {
    const base = await bench.driver.requestProgress();
    const before = bench.watch('/', base);
    const one = await bench.fill(['/a', '/b', '/c', '/😀', '/～']);
    const two = await bench.put('/a', 'changed');
    await bench.delete('/b');
    const last = await bench.put('/large', Buffer.alloc(1024 * 1024, 7));
    await before.reached(last);
    const history = showChanges(before.changes);
    const then = showEntries((await bench.driver.range({ prefix: '/', revision: one })).entries);
    const now = showEntries((await bench.driver.range({ prefix: '/' })).entries);
    await before.stop();

    const driver = await bench.fixture.reopen!();
    expect(showEntries((await driver.range({ prefix: '/', revision: one })).entries)).toEqual(then);
    expect(showEntries((await driver.range({ prefix: '/' })).entries)).toEqual(now);
    expect(await driver.requestProgress()).toBeGreaterThanOrEqual(last);
    const after = bench.watch('/', base, driver);
    await after.reached(last);
    expect(showChanges(after.changes)).toEqual(history);
    // goes on where it was: no revision is given twice, and expectations still hold
    const next = await driver.commit(
      [{ key: '/a', value: bytes('again') }],
      [
        { key: '/a', revision: two },
        { key: '/b', revision: 0 },
      ],
    );
    expect(next.ok && next.revision).toBeGreaterThan(last);
    await after.stop();
  });

  testUnless(lost, 'remembers what was compacted', async (bench) => {
    const one = await bench.put('/a', '1');
    const two = await bench.put('/a', '2');
    await bench.driver.compact(two);
    const driver = await bench.fixture.reopen!();
    expect(await codeOf(driver.get('/a', { revision: one }))).toBe('Compacted');
    expect(text((await driver.get('/a', { revision: two })).entry!.value)).toBe('2');
    expect(text((await driver.get('/a')).entry!.value)).toBe('2');
  });

  testUnless(lost, 'still deletes keys whose time is over', async (bench) => {
    const one = await bench.put('/a', '1', { ttlSeconds: 2 });
    await bench.put('/b', '1');
    const driver = await bench.fixture.reopen!();
    const recording = bench.watch('/', one, driver);
    await bench.fixture.tick?.(2000);
    await recording.until(() => recording.changes.some((change) => change.type === 'delete' && keyOf(change) === '/a'));
    expect((await driver.get('/b')).entry).toBeDefined();
    await recording.stop();
  });

  testUnless(lost, 'loses nothing acknowledged when it ends in the middle of writing', async (bench) => {
    const base = await bench.driver.requestProgress();
    const acknowledged = new Map<Revision, string>();
    const unknown = new Set<string>();
    let writing = true;
    let enough = () => {};
    const begun = new Promise<void>((resolve) => {
      enough = resolve;
    });
    const writer = async (number: number) => {
      for (let at = 0; writing; at += 1) {
        const value = `${number}-${at}`;
        // two keys at once, so that half a commit would show
        const writes = [
          { key: `/left/${number}`, value: bytes(value) },
          { key: `/right/${number}`, value: bytes(value) },
        ];
        try {
          const commit = await bench.driver.commit(writes, []);
          if (commit.ok) acknowledged.set(commit.revision, value);
        } catch (error) {
          if (!(error instanceof StorageError) || error.code !== 'Unavailable') throw error;
          unknown.add(value);
          return;
        }
        if (acknowledged.size >= 200) enough();
      }
    };
    const writers = Promise.all(Array.from({ length: 8 }, (_, number) => writer(number)));
    await Promise.race([begun, writers]);
    const reopening = bench.fixture.reopen!();
    const driver = await reopening;
    writing = false;
    await writers;

    const recording = bench.watch('/', base, driver);
    await recording.reached(await driver.requestProgress());
    const seen = new Map<Revision, string[]>();
    for (const change of recording.changes) {
      if (change.type !== 'put') throw new Error('nothing was deleted');
      seen.set(revisionOf(change), [...(seen.get(revisionOf(change)) ?? []), text(change.entry.value)]);
    }
    for (const [revision, value] of acknowledged) expect(seen.get(revision)).toEqual([value, value]);
    for (const [revision, values] of seen) {
      expect(values).toEqual([values[0], values[0]]);
      if (!acknowledged.has(revision)) expect(unknown).toContain(values[0]);
    }
    await recording.stop();
  });
}
