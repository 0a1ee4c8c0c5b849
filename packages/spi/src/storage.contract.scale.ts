import { expect } from 'vitest';
import { bytes, bytewise, keyOf, type StorageFixture } from './storage.contract.bench.ts';
import type { Suite } from './storage.contract.ts';

const count = 20_000;
/** What finding one place among all keys may cost, in units: a few tens of comparisons, or one request. */
const search = 200;
const keys = Array.from({ length: count }, (_, at) => `/pods/ns-${at % 50}/pod-${String(at).padStart(6, '0')}`);
const uncounted = ({ cost }: StorageFixture) => (cost ? undefined : 'the fixture does not count what things cost');

export function scaleContract({ test, testUnless }: Suite): void {
  test('holds 20,000 keys, and reads them in pages', async (bench) => {
    const base = await bench.driver.requestProgress();
    const recording = bench.watch('/pods/', base);
    const last = await bench.fill(keys);
    const sorted = [...keys].sort(bytewise);
    let pages = 1;
    const entries = await bench.pages({ prefix: '/pods/', limit: 500 }, async ({ remaining, entries: page }) => {
      expect(page).toHaveLength(500);
      expect(remaining).toBe(count - 500 * pages);
      pages += 1;
      await bench.put(`/pods/ns-${pages}/new`, 'written on the way');
    });
    expect(pages).toBe(40);
    expect(entries.map((entry) => entry.key)).toEqual(sorted);
    const all = await bench.driver.range({ prefix: '/pods/', revision: last });
    expect(all.entries.map((entry) => entry.key)).toEqual(sorted);
    expect((await bench.driver.range({ prefix: '/pods/ns-7/', revision: last })).entries).toHaveLength(400);
    await recording.reached(last);
    const late = bench.watch('/pods/ns-7/', base);
    await late.reached(last);
    expect(late.changes.filter((change) => change.type === 'put' && change.entry.revision <= last).map(keyOf)).toEqual(
      keys.filter((key) => key.startsWith('/pods/ns-7/')),
    );
  });

  testUnless(uncounted, 'pays for what it reads, not for what it holds', async (bench) => {
    await bench.fill(keys);
    expect(await bench.costOf(() => bench.driver.get('/pods/ns-7/pod-000007'))).toBeLessThanOrEqual(search);
    expect(await bench.costOf(() => bench.put('/pods/ns-7/pod-000007', 'again'))).toBeLessThanOrEqual(search);
    expect(await bench.costOf(() => bench.put('/pods/ns-7/other', 'new'))).toBeLessThanOrEqual(search);
    expect(await bench.costOf(() => bench.driver.range({ prefix: '/pods/', limit: 10 }))).toBeLessThanOrEqual(10 + search);
    expect(await bench.costOf(() => bench.driver.range({ prefix: '/pods/', after: '/pods/ns-30/', limit: 10 }))).toBeLessThanOrEqual(
      10 + search,
    );
    expect(await bench.costOf(() => bench.driver.range({ prefix: '/pods/', limit: 0 }))).toBeLessThanOrEqual(search);
    expect(await bench.costOf(() => bench.driver.range({ prefix: '/pods/ns-7/' }))).toBeLessThanOrEqual(401 + search);
  });

  testUnless(uncounted, 'pays for all pages of a list about once, while writes go on', async (bench) => {
    await bench.fill(keys);
    let pages = 0;
    const cost = await bench.costOf(() =>
      bench.pages({ prefix: '/pods/', limit: 100 }, async () => {
        pages += 1;
        await bench.put('/pods/hot', `${pages}`);
      }),
    );
    expect(cost).toBeLessThanOrEqual(4 * count + 2 * pages * search);
  });

  testUnless(uncounted, 'does not pay for keys that are gone', async (bench) => {
    await bench.fill(keys);
    for (let at = 0; at < count; at += 100)
      await bench.write(
        keys
          .slice(at, at + 100)
          .filter((_, index) => index % 20 !== 0)
          .map((key) => ({ key, value: null })),
      );
    expect(await bench.costOf(() => bench.driver.range({ prefix: '/pods/', limit: 10 }))).toBeLessThanOrEqual(10 + search);
    expect((await bench.driver.range({ prefix: '/pods/' })).entries).toHaveLength(count / 20);
  });

  testUnless(uncounted, 'does not pay, in a commit, for watches of other keys', async (bench) => {
    const base = await bench.driver.requestProgress();
    const others = Array.from({ length: 1_000 }, (_, at) => bench.watch(`/other-${at}/`, base));
    await Promise.all(others.map((recording) => recording.until(() => recording.batches.length > 0)));
    const mine = bench.watch('/mine/', base);
    await bench.put('/mine/0', 'first');
    let last = 0;
    const cost = await bench.costOf(async () => {
      for (let at = 0; at < 100; at += 1) last = await bench.write([{ key: `/mine/${at}`, value: bytes('x') }]);
      await mine.reached(last);
    });
    expect(cost).toBeLessThanOrEqual(100 * search);
    expect(mine.changes).toHaveLength(101);
  });
}
