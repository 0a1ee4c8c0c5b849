import { expect } from 'vitest';
import { bytes, bytewise, keyOf, type StorageFixture, type Suite } from './harness.ts';

const count = 20_000;
/** Limit of the cost of one lookup, in units: a few tens of comparisons, or one request. */
const search = 200;
const keys = Array.from({ length: count }, (_, at) => `/pods/ns-${at % 50}/pod-${String(at).padStart(6, '0')}`);
const uncounted = ({ cost }: StorageFixture) => (cost ? undefined : 'the fixture does not count costs');

export function scaleContract({ test, testUnless }: Suite): void {
  test('stores 20,000 keys, and reads them in pages', async (harness) => {
    const base = await harness.driver.requestProgress();
    const recording = harness.watch('/pods/', base);
    const last = await harness.fill(keys);
    const sorted = [...keys].sort(bytewise);
    let pages = 1;
    const entries = await harness.pages({ prefix: '/pods/', limit: 500 }, async ({ remaining, entries: page }) => {
      expect(page).toHaveLength(500);
      expect(remaining).toBe(count - 500 * pages);
      pages += 1;
      await harness.put(`/pods/ns-${pages}/new`, 'written on the way');
    });
    expect(pages).toBe(40);
    expect(entries.map((entry) => entry.key)).toEqual(sorted);
    const all = await harness.driver.range({ prefix: '/pods/', revision: last });
    expect(all.entries.map((entry) => entry.key)).toEqual(sorted);
    expect((await harness.driver.range({ prefix: '/pods/ns-7/', revision: last })).entries).toHaveLength(400);
    await recording.waitForRevision(last);
    const late = harness.watch('/pods/ns-7/', base);
    await late.waitForRevision(last);
    expect(late.changes.filter((change) => change.type === 'put' && change.entry.revision <= last).map(keyOf)).toEqual(
      keys.filter((key) => key.startsWith('/pods/ns-7/')),
    );
  });

  testUnless(uncounted, 'costs as much as it reads, not as it stores', async (harness) => {
    await harness.fill(keys);
    expect(await harness.costOf(() => harness.driver.get('/pods/ns-7/pod-000007'))).toBeLessThanOrEqual(search);
    expect(await harness.costOf(() => harness.put('/pods/ns-7/pod-000007', 'again'))).toBeLessThanOrEqual(search);
    expect(await harness.costOf(() => harness.put('/pods/ns-7/other', 'new'))).toBeLessThanOrEqual(search);
    expect(await harness.costOf(() => harness.driver.range({ prefix: '/pods/', limit: 10 }))).toBeLessThanOrEqual(10 + search);
    expect(await harness.costOf(() => harness.driver.range({ prefix: '/pods/', after: '/pods/ns-30/', limit: 10 }))).toBeLessThanOrEqual(
      10 + search,
    );
    expect(await harness.costOf(() => harness.driver.range({ prefix: '/pods/', limit: 0 }))).toBeLessThanOrEqual(search);
    expect(await harness.costOf(() => harness.driver.range({ prefix: '/pods/ns-7/' }))).toBeLessThanOrEqual(401 + search);
  });

  testUnless(uncounted, 'lists all pages at about the cost of one list, during writes', async (harness) => {
    await harness.fill(keys);
    let pages = 0;
    const cost = await harness.costOf(() =>
      harness.pages({ prefix: '/pods/', limit: 100 }, async () => {
        pages += 1;
        await harness.put('/pods/hot', `${pages}`);
      }),
    );
    expect(cost).toBeLessThanOrEqual(4 * count + 2 * pages * search);
  });

  testUnless(uncounted, 'has no cost for deleted keys', async (harness) => {
    await harness.fill(keys);
    for (let at = 0; at < count; at += 100)
      await harness.write(
        keys
          .slice(at, at + 100)
          .filter((_, index) => index % 20 !== 0)
          .map((key) => ({ key, value: null })),
      );
    expect(await harness.costOf(() => harness.driver.range({ prefix: '/pods/', limit: 10 }))).toBeLessThanOrEqual(10 + search);
    expect((await harness.driver.range({ prefix: '/pods/' })).entries).toHaveLength(count / 20);
  });

  testUnless(uncounted, 'commits without cost for watches of other keys', async (harness) => {
    const base = await harness.driver.requestProgress();
    const others = Array.from({ length: 1_000 }, (_, at) => harness.watch(`/other-${at}/`, base));
    await Promise.all(others.map((recording) => recording.until(() => recording.batches.length > 0)));
    const mine = harness.watch('/mine/', base);
    await harness.put('/mine/0', 'first');
    let last = 0;
    const cost = await harness.costOf(async () => {
      for (let at = 0; at < 100; at += 1) last = await harness.write([{ key: `/mine/${at}`, value: bytes('x') }]);
      await mine.waitForRevision(last);
    });
    expect(cost).toBeLessThanOrEqual(100 * search);
    expect(mine.changes).toHaveLength(101);
  });
}
