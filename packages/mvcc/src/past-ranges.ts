import type { Entry, Page, Revision } from '@oarlock/spi/storage';
import type { KeyHistory } from './key-history.ts';
import type { SortedIndex } from './sorted-index.ts';

/** All entries under a prefix at one revision, in order. */
export interface PastRange {
  readonly revision: Revision;
  readonly keys: readonly string[];
  readonly entries: readonly Entry[];
}

/** The entries of a range from a key on, at most so many. */
export function pageOf({ keys, entries, revision }: PastRange, start: string, limit: number): Page {
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

/** How many lists in pages can be under way at once, and how many entries they may hold together, before one of them is gathered anew. */
const most = { ranges: 16, entries: 1_000_000 };

/** Ranges of the past that are being read page by page, so that the pages of a list cost as much as the list. The least recently used one goes first. */
export class PastRanges {
  readonly #ranges = new Map<string, { readonly revision: Revision; readonly range: Promise<PastRange | undefined>; size: number }>();
  #entries = 0;

  async get(prefix: string, revision: Revision, gather: () => Promise<PastRange | undefined>): Promise<PastRange | undefined> {
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
      if (this.#ranges.size === 1 || (this.#ranges.size <= most.ranges && this.#entries <= most.entries)) break;
      this.#drop(oldest);
    }
    return range;
  }

  /** Lets go of what may not be read any more. */
  compact(revision: Revision): void {
    for (const [id, kept] of this.#ranges) if (kept.revision < revision) this.#drop(id);
  }

  #drop(id: string): void {
    this.#entries -= this.#ranges.get(id)?.size ?? 0;
    this.#ranges.delete(id);
  }
}

/** Keys that are visited at a stretch. */
const stretch = 5_000;
export const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/**
 * The first entries from `start` to before `end` as of a revision. Others get their turn in between: what stood at a revision does
 * not change, and its keys stay in the index. Undefined when it was compacted meanwhile, that is, is not `readable` any more.
 */
export async function gather(
  all: SortedIndex<KeyHistory>,
  {
    start,
    end,
    revision,
    limit,
  }: { readonly start: string; readonly end: string | undefined; readonly revision: Revision; readonly limit: number },
  readable: () => boolean,
): Promise<PastRange | undefined> {
  const keys: string[] = [];
  const entries: Entry[] = [];
  for (let next: string | undefined = start; next !== undefined; ) {
    let left = stretch;
    const first: string = next;
    next = undefined;
    all.from(first, (history, key) => {
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
    if (next !== undefined) await turn();
    if (!readable()) return undefined;
  }
  return { revision, keys, entries };
}
