import type { Revision } from '@oarlock/spi/storage';
import type { Version } from './key-history.ts';

/** A growing ring buffer of all versions since the last compaction, ordered by revision. */
export class CommitLog {
  #ring: (Version | undefined)[] = new Array<Version | undefined>(1024).fill(undefined);
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }
  get oldest(): Version | undefined {
    return this.#ring[this.#head];
  }
  at(index: number): Version {
    return this.#ring[(this.#head + index) & (this.#ring.length - 1)] as Version;
  }

  push(version: Version): void {
    if (this.#size === this.#ring.length) this.#grow();
    this.#ring[(this.#head + this.#size) & (this.#ring.length - 1)] = version;
    this.#size += 1;
  }

  shift(): Version | undefined {
    const version = this.#ring[this.#head];
    if (!version) return undefined;
    this.#ring[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#ring.length - 1);
    this.#size -= 1;
    return version;
  }

  /** Returns the index of the first version after a revision. */
  after(revision: Revision): number {
    let low = 0;
    for (let high = this.#size; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.at(middle).revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #grow(): void {
    const ring = new Array<Version | undefined>(this.#ring.length * 2).fill(undefined);
    for (let index = 0; index < this.#size; index += 1) ring[index] = this.at(index);
    this.#ring = ring;
    this.#head = 0;
  }
}
