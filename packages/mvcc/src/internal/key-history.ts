import type { Change, Entry, Revision } from '@oarlock/spi/storage';
import type { ExpiryItem } from './expiry-queue.ts';

/** The effect of one commit on one key. */
export interface Version {
  readonly history: KeyHistory;
  readonly revision: Revision;
  /** The entry that the commit wrote; absent if the commit deleted the key. */
  readonly entry: Entry | undefined;
  /** The change for watches; absent once the commit is compacted, because it would keep the previous value in memory. */
  change: Change | undefined;
  /** Size in bytes of the value that this version replaced. The replaced value stays in memory for reads at past revisions. */
  readonly replacedBytes: number;
}

/** The versions of one key since the last compaction, oldest first. */
export class KeyHistory implements ExpiryItem {
  readonly key: string;
  readonly sortKey: string;
  /** Expiry in milliseconds of the monotonic clock; valid only while `heapIndex` is not -1. */
  deadline = 0;
  heapIndex = -1;
  #versions: Version[] = [];
  #first = 0;

  constructor(key: string, sortKey: string) {
    this.key = key;
    this.sortKey = sortKey;
  }

  /** The current entry; undefined if the key does not exist. */
  get entry(): Entry | undefined {
    return this.#versions[this.#versions.length - 1]?.entry;
  }

  add(version: Version): void {
    this.#versions.push(version);
  }

  /** Returns the entry at a revision that is not compacted; undefined if the key did not exist at that revision. */
  at(revision: Revision): Entry | undefined {
    let low = this.#first;
    for (let high = this.#versions.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#versions[middle] as Version).revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low > this.#first ? (this.#versions[low - 1] as Version).entry : undefined;
  }

  /** Appends the versions after a revision to `found`. */
  since(revision: Revision, found: Version[]): void {
    for (let at = this.#versions.length - 1; at >= this.#first; at -= 1) {
      const version = this.#versions[at] as Version;
      if (version.revision <= revision) return;
      found.push(version);
    }
  }

  /** Discards all versions older than `version`, and `version` itself if it is a deletion. Called once for each version, oldest first. */
  forgetBefore(version: Version): void {
    if (this.#versions[this.#first] !== version) this.#first += 1;
    if (version.entry === undefined) this.#first += 1;
    if (this.#first === this.#versions.length || (this.#first >= 16 && this.#first * 2 >= this.#versions.length)) {
      this.#versions.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** True if no version is left. */
  get isEmpty(): boolean {
    return this.#versions.length === this.#first;
  }
}
