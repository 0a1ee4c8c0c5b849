import type { Entry, Revision } from '@oarlock/spi/storage';

/** All entries under a prefix at one revision, in order. */
export interface PastRange { readonly revision: Revision; readonly keys: readonly string[]; readonly entries: readonly Entry[] }

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
