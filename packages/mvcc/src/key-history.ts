import type { Change, Entry, Revision } from '@oarlock/spi/storage';
import type { ExpiryItem } from './expiry.ts';

/** What one commit did to one key. */
export interface Version {
  readonly history: KeyHistory;
  readonly revision: Revision;
  /** Absent when the commit deleted the key. */
  readonly entry: Entry | undefined;
  /** Absent once the commit is compacted: nobody can watch it any more, and it would keep the value before it alive. */
  change: Change | undefined;
  /** Bytes of the value that this version took the place of, kept for readers of the past. */
  readonly replaced: number;
}

/** The versions of one key since the last compaction, oldest first. */
export class KeyHistory implements ExpiryItem {
  readonly key: string;
  readonly sortKey: string;
  /** By the clock's `monotonic`; only meaningful while `slot` is not -1. */
  deadline = 0;
  slot = -1;
  #versions: Version[] = [];
  #first = 0;

  constructor(key: string, sortKey: string) {
    this.key = key;
    this.sortKey = sortKey;
  }

  /** What stands under the key now. */
  get entry(): Entry | undefined {
    return this.#versions[this.#versions.length - 1]?.entry;
  }

  add(version: Version): void {
    this.#versions.push(version);
  }

  /** What stood under the key at a revision that is not compacted. */
  at(revision: Revision): Entry | undefined {
    let low = this.#first;
    for (let high = this.#versions.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#versions[middle] as Version).revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low > this.#first ? (this.#versions[low - 1] as Version).entry : undefined;
  }

  /** Adds the versions after a revision to `found`. */
  since(revision: Revision, found: Version[]): void {
    for (let at = this.#versions.length - 1; at >= this.#first; at -= 1) {
      const version = this.#versions[at] as Version;
      if (version.revision <= revision) return;
      found.push(version);
    }
  }

  /** Forgets what stood before `version`, and the version too when it is a delete. Called for each version once, oldest first. */
  forgetBefore(version: Version): void {
    if (this.#versions[this.#first] !== version) this.#first += 1;
    if (version.entry === undefined) this.#first += 1;
    if (this.#first === this.#versions.length || (this.#first >= 16 && this.#first * 2 >= this.#versions.length)) {
      this.#versions.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** Whether nothing of the key is left to be read. */
  get forgotten(): boolean {
    return this.#versions.length === this.#first;
  }
}
