import { expect } from 'vitest';
import { keyOf, revisionOf, text, type StorageHarness, type WatchRecorder, type Suite } from './harness.ts';

/**
 * Advances time until `key` is deleted, and checks that at least `seconds` have passed since `since` (a `performance.now` time; with the
 * fixture's clock, since now).
 */
async function gone(
  harness: StorageHarness,
  recording: WatchRecorder,
  key: string,
  { seconds, since }: { readonly seconds: number; readonly since: number },
): Promise<void> {
  const isGone = () => recording.changes.some((change) => change.type === 'delete' && keyOf(change) === key);
  if (!harness.fixture.tick) {
    await recording.until(isGone);
    // timers may run a millisecond early
    expect(performance.now() - since).toBeGreaterThan(seconds * 1000 - 5);
    return;
  }
  await harness.fixture.tick(seconds * 1000 - 1);
  expect(isGone()).toBe(false);
  expect((await harness.driver.get(key)).entry).toBeDefined();
  await harness.fixture.tick(1);
  await recording.until(isGone);
}

export function ttlContract({ test }: Suite): void {
  test('deletes an expired key, as a change with a revision', async (harness) => {
    const recording = harness.watch('/', await harness.driver.requestProgress());
    const since = performance.now();
    const one = await harness.put('/a', '1', { ttlSeconds: 1 });
    await recording.waitForRevision(one);
    await gone(harness, recording, '/a', { seconds: 1, since });
    const last = recording.changes.at(-1)!;
    expect(last).toMatchObject({ type: 'delete', previous: { key: '/a', revision: one, created: one } });
    expect(revisionOf(last)).toBeGreaterThan(one);
    expect(last.previous && text(last.previous.value)).toBe('1');
    expect((await harness.driver.get('/a')).entry).toBeUndefined();
    expect((await harness.driver.get('/a', { revision: one })).entry).toMatchObject({ revision: one });
    expect(await harness.driver.requestProgress()).toBeGreaterThanOrEqual(revisionOf(last));
    const again = harness.watch('/', one);
    await again.until(() => again.changes.length === 1);
    await harness.put('/a', '2');
  });

  test('restarts with each write that has a ttl, and ends with one that has none', async (harness) => {
    const recording = harness.watch('/', await harness.driver.requestProgress());
    await harness.put('/renewed', '1', { ttlSeconds: 1 });
    await harness.put('/kept', '1', { ttlSeconds: 1 });
    await harness.put('/kept', '2');
    await harness.put('/deleted', '1', { ttlSeconds: 1 });
    await harness.delete('/deleted');
    await harness.put('/deleted', '2');
    const renewed = performance.now();
    await harness.put('/renewed', '2', { ttlSeconds: 4 });
    const plain = performance.now();
    const last = await harness.put('/plain', '1', { ttlSeconds: 1 });
    await recording.waitForRevision(last);
    await gone(harness, recording, '/plain', { seconds: 1, since: plain });
    await gone(harness, recording, '/renewed', { seconds: harness.fixture.tick ? 3 : 4, since: renewed });
    for (const key of ['/kept', '/deleted']) expect(text((await harness.driver.get(key)).entry!.value)).toBe('2');
    expect(recording.changes.filter((change) => change.type === 'delete').map(keyOf)).toEqual(['/deleted', '/plain', '/renewed']);
  });

  test('deletes many keys that expire together, and no others', async (harness) => {
    const recording = harness.watch('/', await harness.driver.requestProgress());
    const count = 2_500;
    const keys = Array.from({ length: count }, (_, at) => `/events/${at}`);
    for (let at = 0; at < count; at += 100)
      await harness.write(
        keys.slice(at, at + 100).map((key, index) => ({ key, value: Buffer.from('x'), ...(index % 2 === 0 && { ttlSeconds: 3 }) })),
      );
    await recording.until(() => recording.changes.length >= count);
    await harness.fixture.tick?.(3000);
    await recording.until(() => recording.changes.length >= count * 1.5);
    const left = await harness.driver.range({ prefix: '/events/' });
    expect(left.entries).toHaveLength(count / 2);
    expect(new Set(left.entries.map(({ key }) => Number(key.slice('/events/'.length)) % 2))).toEqual(new Set([1]));
  });
}
