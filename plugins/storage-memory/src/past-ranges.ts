import type { Entry, Revision } from '@oarlock/spi/storage';

/** All entries under a prefix at one revision, in order. */
export interface PastRange { readonly revision: Revision; readonly keys: readonly string[]; readonly entries: readonly Entry[] }

/** How many lists in pages can be under way at once, and how many entries they may hold together, before one of them is gathered anew. */
const most = { ranges: 16, entries: 1_000_000 };

/** Ranges of the past that are being read page by page, so that the pages of a list cost as much as the list. The least recently used one goes first. */
export class PastRanges {
  readonly #ranges = new Map<string, PastRange>();
  #entries = 0;

  get(prefix: string, revision: Revision, gather: () => PastRange): PastRange {
    const id = `${revision} ${prefix}`;
    const known = this.#ranges.get(id);
    if (known) {
      this.#ranges.delete(id);
      this.#ranges.set(id, known);
      return known;
    }
    const range = gather();
    this.#ranges.set(id, range);
    this.#entries += range.entries.length;
    for (const [oldest] of this.#ranges) {
      if (this.#ranges.size === 1 || (this.#ranges.size <= most.ranges && this.#entries <= most.entries)) break;
      this.#drop(oldest);
    }
    return range;
  }

  /** Lets go of what may not be read any more. */
  compact(revision: Revision): void {
    if (this.#ranges.size === 0) return;
    for (const [id, range] of this.#ranges) if (range.revision < revision) this.#drop(id);
  }

  #drop(id: string): void {
    this.#entries -= this.#ranges.get(id)?.entries.length ?? 0;
    this.#ranges.delete(id);
  }
}
