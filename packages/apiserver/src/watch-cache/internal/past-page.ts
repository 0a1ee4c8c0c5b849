import type { Item } from '../item.ts';
import type { OrderedMap } from '../ordered-map.ts';

/** A page of the objects of a resource. */
export interface Page {
  readonly items: readonly Item[];
  /** True if further objects match. */
  readonly more: boolean;
}

export interface PageOptions {
  readonly prefix: string;
  /** The key that the page follows; '' for the first page. */
  readonly after: string;
  readonly limit: number;
  matches(item: Item): boolean;
}

/** A page of an earlier revision. */
export interface PastPage extends Page {
  /** The number of objects under the prefix that follow the page, whether they match or not. */
  readonly remaining: number;
}

/**
 * Returns a page as it was before changes. Reads the objects of the page and the changes only, because the pages of a list of a resource that changes all the
 * time would otherwise take time that grows with the square of its size.
 * @param current the objects after the changes
 * @param changed the objects under the prefix and after the key that have changed, as they were before; undefined for an object that did not exist
 */
export function pastPage(
  current: OrderedMap<Item>,
  changed: ReadonlyMap<string, Item | undefined>,
  { prefix, after, limit, matches }: PageOptions,
): PastPage {
  const earlier = [...changed.values()].filter((item) => item !== undefined).sort((a, b) => (a.key < b.key ? -1 : 1));
  const items: Item[] = [];
  let next = 0;
  const isFull = () => items.length > limit;
  const take = (item: Item) => {
    if (!isFull() && matches(item)) items.push(item);
  };
  const takeEarlier = (before?: string) => {
    for (let item = earlier[next]; item !== undefined && !isFull() && (before === undefined || item.key < before); item = earlier[next]) {
      next += 1;
      take(item);
    }
  };
  current.scan(prefix, after, (key, item) => {
    takeEarlier(key);
    if (!changed.has(key)) take(item);
    return !isFull();
  });
  takeEarlier();
  if (!isFull()) return { items, more: false, remaining: 0 };
  items.pop(); // one more than the limit
  const last = items.at(-1)?.key ?? after;
  let remaining = current.count(prefix, last);
  for (const [key, item] of changed) {
    if (key <= last) continue;
    if (current.has(key)) remaining -= 1;
    if (item !== undefined) remaining += 1;
  }
  return { items, more: true, remaining };
}
