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
  type Suite,
} from './harness.ts';
import { StorageError } from '../storage.ts';

const notDurable = (fixture: StorageFixture): string | undefined => {
  if (fixture.reopen) return undefined;
  if (fixture.driver.traits.durable) throw new Error('the driver is durable, so its fixture must have reopen');
  return 'the driver is not durable';
};

export function restartContract({ testUnless }: Suite): void {
  testUnless(notDurable, 'has all data and history after an abrupt end', async (harness) => {
    const base = await harness.driver.requestProgress();
    const before = harness.watch('/', base);
    const one = await harness.fill(['/a', '/b', '/c', '/😀', '/～']);
    const two = await harness.put('/a', 'changed');
    await harness.delete('/b');
    const last = await harness.put('/large', Buffer.alloc(1024 * 1024, 7));
    await before.waitForRevision(last);
    const history = showChanges(before.changes);
    const then = showEntries((await harness.driver.range({ prefix: '/', revision: one })).entries);
    const now = showEntries((await harness.driver.range({ prefix: '/' })).entries);
    await before.stop();

    const driver = await harness.fixture.reopen!();
    expect(showEntries((await driver.range({ prefix: '/', revision: one })).entries)).toEqual(then);
    expect(showEntries((await driver.range({ prefix: '/' })).entries)).toEqual(now);
    expect(await driver.requestProgress()).toBeGreaterThanOrEqual(last);
    const after = harness.watch('/', base, driver);
    await after.waitForRevision(last);
    expect(showChanges(after.changes)).toEqual(history);
    // continues after the last revision, and preconditions still hold
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

  testUnless(notDurable, 'remembers the compacted revision', async (harness) => {
    const one = await harness.put('/a', '1');
    const two = await harness.put('/a', '2');
    await harness.driver.compact(two);
    const driver = await harness.fixture.reopen!();
    expect(await codeOf(driver.get('/a', { revision: one }))).toBe('Compacted');
    expect(text((await driver.get('/a', { revision: two })).entry!.value)).toBe('2');
    expect(text((await driver.get('/a')).entry!.value)).toBe('2');
  });

  testUnless(notDurable, 'still deletes expired keys', async (harness) => {
    const one = await harness.put('/a', '1', { ttlSeconds: 2 });
    await harness.put('/b', '1');
    const driver = await harness.fixture.reopen!();
    const recording = harness.watch('/', one, driver);
    await harness.fixture.tick?.(2000);
    await recording.until(() => recording.changes.some((change) => change.type === 'delete' && keyOf(change) === '/a'));
    expect((await driver.get('/b')).entry).toBeDefined();
    await recording.stop();
  });

  testUnless(notDurable, 'loses no acknowledged commit if it ends during writes', async (harness) => {
    const base = await harness.driver.requestProgress();
    const acknowledged = new Map<Revision, string>();
    const unknown = new Set<string>();
    let writing = true;
    let resolveEnough = () => {};
    const enoughWritten = new Promise<void>((resolve) => {
      resolveEnough = resolve;
    });
    const writer = async (number: number) => {
      for (let at = 0; writing; at += 1) {
        const value = `${number}-${at}`;
        // two keys, so that a partial commit would show
        const writes = [
          { key: `/left/${number}`, value: bytes(value) },
          { key: `/right/${number}`, value: bytes(value) },
        ];
        try {
          const commit = await harness.driver.commit(writes, []);
          if (commit.ok) acknowledged.set(commit.revision, value);
        } catch (error) {
          if (!(error instanceof StorageError) || error.code !== 'Unavailable') throw error;
          unknown.add(value);
          return;
        }
        if (acknowledged.size >= 200) resolveEnough();
      }
    };
    const writers = Promise.all(Array.from({ length: 8 }, (_, number) => writer(number)));
    await Promise.race([enoughWritten, writers]);
    const reopening = harness.fixture.reopen!();
    const driver = await reopening;
    writing = false;
    await writers;

    const recording = harness.watch('/', base, driver);
    await recording.waitForRevision(await driver.requestProgress());
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
