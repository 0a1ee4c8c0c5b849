import type { Entry, Page, Revision } from '@oarlock/spi/storage';
import type { KeyHistory } from './key-history.ts';
import type { BTree } from '@oarlock/primitives/collections/btree';

/** All entries under a prefix at one revision, in key order. */
export interface HistoricalRange {
  readonly revision: Revision;
  readonly keys: readonly string[];
  readonly entries: readonly Entry[];
}

/** Returns at most `limit` entries of a range, starting at a key. */
export function pageOf({ keys, entries, revision }: HistoricalRange, start: string, limit: number): Page {
  let low = 0;
  for (let high = keys.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((keys[middle] as string) < start) low = middle + 1;
    else high = middle;
  }
  const page = entries.slice(low, low + Math.min(limit, entries.length));
  const remaining = entries.length - low - page.length;
  return { entries: page, revision, more: remaining > 0, remaining };
}

/** Limits of the number of cached ranges and of cached entries. A list whose range was evicted from the cache reads the range again. */
const limits = { ranges: 16, entries: 1_000_000 };

/**
 * A cache of ranges at past revisions that clients read page by page, so that all pages together cost about one read. Evicts the least
 * recently used range first.
 */
export class HistoricalRanges {
  readonly #ranges = new Map<string, { readonly revision: Revision; readonly range: Promise<HistoricalRange | undefined>; size: number }>();
  #entries = 0;

  async get(prefix: string, revision: Revision, gather: () => Promise<HistoricalRange | undefined>): Promise<HistoricalRange | undefined> {
    const id = `${revision} ${prefix}`;
    const known = this.#ranges.get(id);
    this.#ranges.delete(id);
    const kept = known ?? { revision, range: gather(), size: 0 };
    this.#ranges.set(id, kept);
    const range = await kept.range;
    if (kept.size === 0 && this.#ranges.get(id) === kept) {
      kept.size = range?.entries.length ?? 0;
      this.#entries += kept.size;
    }
    for (const oldest of this.#ranges.keys()) {
      if (this.#ranges.size === 1 || (this.#ranges.size <= limits.ranges && this.#entries <= limits.entries)) break;
      this.#drop(oldest);
    }
    return range;
  }

  /** Evicts the ranges whose revision was compacted. */
  compact(revision: Revision): void {
    for (const [id, kept] of this.#ranges) if (kept.revision < revision) this.#drop(id);
  }

  #drop(id: string): void {
    this.#entries -= this.#ranges.get(id)?.size ?? 0;
    this.#ranges.delete(id);
  }
}

/** Number of keys visited per turn of the event loop. */
const keysPerTurn = 5_000;
export const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/**
 * Returns the first entries of the key range [`start`, `end`) at a revision, or undefined if the revision is compacted during the read
 * (`readable` returns false). Yields to the event loop between slices; this is safe because the entries at a revision never change, and the
 * index keeps the keys of the revision.
 */
export async function gather(
  all: BTree<KeyHistory>,
  {
    start,
    end,
    revision,
    limit,
  }: { readonly start: string; readonly end: string | undefined; readonly revision: Revision; readonly limit: number },
  readable: () => boolean,
): Promise<HistoricalRange | undefined> {
  const keys: string[] = [];
  const entries: Entry[] = [];
  for (let next: string | undefined = start; next !== undefined; ) {
    let left = keysPerTurn;
    const first: string = next;
    next = undefined;
    all.ascendFrom(first, (history, key) => {
      if (end !== undefined && key >= end) return false;
      if (left === 0) {
        next = key;
        return false;
      }
      left -= 1;
      const entry = history.at(revision);
      if (!entry) return true;
      keys.push(key);
      return entries.push(entry) < limit;
    });
    if (next !== undefined) await nextTurn();
    if (!readable()) return undefined;
  }
  return { revision, keys, entries };
}
