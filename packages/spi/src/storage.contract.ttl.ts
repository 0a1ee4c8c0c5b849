import { expect } from 'vitest';
import { keyOf, revisionOf, text, type Bench, type Recording } from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';

/** Lets time go on until `key` was deleted, and checks that this was not before `seconds` from `since` (by `performance.now`, or by the fixture's clock, from now). */
async function gone(
  bench: Bench,
  recording: Recording,
  key: string,
  { seconds, since }: { readonly seconds: number; readonly since: number },
): Promise<void> {
  const isGone = () => recording.changes.some((change) => change.type === 'delete' && keyOf(change) === key);
  if (!bench.fixture.tick) {
    await recording.until(isGone);
    // timers may run a millisecond early
    expect(performance.now() - since).toBeGreaterThan(seconds * 1000 - 5);
    return;
  }
  await bench.fixture.tick(seconds * 1000 - 1);
  expect(isGone()).toBe(false);
  expect((await bench.driver.get(key)).entry).toBeDefined();
  await bench.fixture.tick(1);
  await recording.until(isGone);
}

export function ttlContract({ test }: Suite): void {
  test('deletes a key when its time is over, as a change like any other', async (bench) => {
    const recording = bench.watch('/', await bench.driver.requestProgress());
    const since = performance.now();
    const one = await bench.put('/a', '1', { ttlSeconds: 1 });
    await recording.reached(one);
    await gone(bench, recording, '/a', { seconds: 1, since });
    const last = recording.changes.at(-1)!;
    expect(last).toMatchObject({ type: 'delete', previous: { key: '/a', revision: one, created: one } });
    expect(revisionOf(last)).toBeGreaterThan(one);
    expect(last.previous && text(last.previous.value)).toBe('1');
    expect((await bench.driver.get('/a')).entry).toBeUndefined();
    expect((await bench.driver.get('/a', { revision: one })).entry).toMatchObject({ revision: one });
    expect(await bench.driver.requestProgress()).toBeGreaterThanOrEqual(revisionOf(last));
    const again = bench.watch('/', one);
    await again.until(() => again.changes.length === 1);
    await bench.put('/a', '2');
  });

  test('counts anew with each write that states a time, and not at all after one that states none', async (bench) => {
    const recording = bench.watch('/', await bench.driver.requestProgress());
    await bench.put('/renewed', '1', { ttlSeconds: 1 });
    await bench.put('/kept', '1', { ttlSeconds: 1 });
    await bench.put('/kept', '2');
    await bench.put('/deleted', '1', { ttlSeconds: 1 });
    await bench.delete('/deleted');
    await bench.put('/deleted', '2');
    const renewed = performance.now();
    await bench.put('/renewed', '2', { ttlSeconds: 4 });
    const plain = performance.now();
    const last = await bench.put('/plain', '1', { ttlSeconds: 1 });
    await recording.reached(last);
    await gone(bench, recording, '/plain', { seconds: 1, since: plain });
    await gone(bench, recording, '/renewed', { seconds: bench.fixture.tick ? 3 : 4, since: renewed });
    for (const key of ['/kept', '/deleted']) expect(text((await bench.driver.get(key)).entry!.value)).toBe('2');
    expect(recording.changes.filter((change) => change.type === 'delete').map(keyOf)).toEqual(['/deleted', '/plain', '/renewed']);
  });

  test('deletes many keys that end together, and leaves no other', async (bench) => {
    const recording = bench.watch('/', await bench.driver.requestProgress());
    const count = 2_500;
    const keys = Array.from({ length: count }, (_, at) => `/events/${at}`);
    for (let at = 0; at < count; at += 100)
      await bench.write(
        keys.slice(at, at + 100).map((key, index) => ({ key, value: Buffer.from('x'), ...(index % 2 === 0 && { ttlSeconds: 3 }) })),
      );
    await recording.until(() => recording.changes.length >= count);
    await bench.fixture.tick?.(3000);
    await recording.until(() => recording.changes.length >= count * 1.5);
    const left = await bench.driver.range({ prefix: '/events/' });
    expect(left.entries).toHaveLength(count / 2);
    expect(new Set(left.entries.map(({ key }) => Number(key.slice('/events/'.length)) % 2))).toEqual(new Set([1]));
  });
}
