import { describe, expect, it } from 'vitest';
import { pastPage } from '../../../src/watch-cache/internal/past-page.ts';
import type { Item } from '../../../src/watch-cache/item.ts';
import { OrderedMap } from '../../../src/watch-cache/ordered-map.ts';

const item = (key: string, revision = 1) => ({ key, revision }) as Item;
const keys = (count: number) => Array.from({ length: count }, (_, index) => `ns/${String(index).padStart(5, '0')}`);

/** Returns the present objects, and what changed since an earlier state: each third key was deleted, changed or created. */
function history(count: number) {
  const then = new Map<string, Item>();
  const current = new OrderedMap<Item>();
  const changed = new Map<string, Item | undefined>();
  for (const [index, key] of keys(count).entries()) {
    const [isCreated, isChanged, isDeleted] = [0, 1, 2].map((kind) => index % 3 === 0 && Math.floor(index / 3) % 3 === kind);
    if (!isCreated) then.set(key, item(key));
    if (!isDeleted) current.set(key, item(key, isChanged || isCreated ? 2 : 1));
    if (isCreated || isChanged || isDeleted) changed.set(key, then.get(key));
  }
  return { then: [...then.values()], current, changed };
}
const since = (changed: ReadonlyMap<string, Item | undefined>, after: string) => new Map([...changed].filter(([key]) => key > after));

describe('pastPage', () => {
  it.each([1, 2, 3, 7, 100, 1000])('has all objects as they were, in pages of %i, with the number of those that follow', (limit) => {
    const { then, current, changed } = history(100);
    const found: Item[] = [];
    for (let after = ''; ; after = found.at(-1)?.key ?? '') {
      const page = pastPage(current, since(changed, after), { prefix: 'ns/', after, limit, matches: () => true });
      found.push(...page.items);
      expect(page.remaining).toBe(then.length - found.length);
      if (!page.more) break;
      expect(page.items).toHaveLength(limit);
    }
    expect(found).toEqual(then);
  });

  it('has the objects that match', () => {
    const { then, current, changed } = history(100);
    const matches = ({ key }: Item) => key.endsWith('5') || key.endsWith('6');
    const page = pastPage(current, changed, { prefix: 'ns/', after: '', limit: 1000, matches });
    expect(page.items).toEqual(then.filter(matches));
    expect(pastPage(current, changed, { prefix: 'ns/', after: '', limit: 3, matches })).toMatchObject({
      items: then.filter(matches).slice(0, 3),
      more: true,
    });
  });

  it('reads the objects of the page only', () => {
    const { current, changed } = history(10_000);
    const scan = current.scan.bind(current);
    let visited = 0;
    current.scan = (prefix, after, visit) =>
      scan(prefix, after, (key, item) => {
        visited += 1;
        return visit(key, item);
      });
    expect(pastPage(current, changed, { prefix: 'ns/', after: '', limit: 50, matches: () => true }).items).toHaveLength(50);
    // those that were created since are visited, and are no part of the page
    expect(visited).toBeLessThan(80);
  });
});
