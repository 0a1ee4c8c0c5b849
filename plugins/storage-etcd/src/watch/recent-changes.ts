import type { ChangeBatch, Revision } from '@oarlock/spi/storage';
import { bytesOf, revisionOf } from './event-changes.ts';

interface KeptBatch {
  readonly batch: ChangeBatch;
  readonly bytes: number;
}

/** Estimated memory of a change in addition to its values, in bytes. */
const changeBytes = 256;
const most = { changes: 10_000, bytes: 16 * 1024 * 1024 };

/** The most recent changes of a feed, for watches that start slightly before its position. */
export class RecentChanges {
  /** All changes after this revision are stored. */
  floor: Revision;
  #kept: KeptBatch[] = [];
  #first = 0;
  #changes = 0;
  #bytes = 0;

  constructor(floor: Revision) {
    this.floor = floor;
  }

  add(batch: ChangeBatch): void {
    const bytes = batch.changes.reduce((sum, change) => sum + changeBytes + bytesOf(change), 0);
    this.#kept.push({ batch, bytes });
    this.#changes += batch.changes.length;
    this.#bytes += bytes;
    while (this.#changes > most.changes || this.#bytes > most.bytes) this.#drop();
    if (this.#first >= 256 && this.#first * 2 >= this.#kept.length) {
      this.#kept.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** Discards everything up to a revision, so that no watch can start before it. */
  clear(upTo: Revision): void {
    while ((this.#kept[this.#first]?.batch.revision ?? Infinity) <= upTo) this.#drop();
    this.floor = Math.max(this.floor, upTo);
  }

  /** Returns the changes under a prefix after a revision, which must not be before the floor. */
  since(after: Revision, prefix: string): ChangeBatch[] {
    const batches: ChangeBatch[] = [];
    for (let at = this.#after(after); at < this.#kept.length; at += 1) {
      const { batch } = this.#kept[at] as KeptBatch;
      const changes = batch.changes.filter(
        (change) => revisionOf(change) > after && (change.type === 'put' ? change.entry : change.previous).key.startsWith(prefix),
      );
      if (changes.length > 0) batches.push({ changes, revision: batch.revision });
    }
    return batches;
  }

  #after(revision: Revision): number {
    let low = this.#first;
    for (let high = this.#kept.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#kept[middle] as KeptBatch).batch.revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #drop(): void {
    const kept = this.#kept[this.#first] as KeptBatch;
    this.#first += 1;
    this.#changes -= kept.batch.changes.length;
    this.#bytes -= kept.bytes;
    this.floor = Math.max(this.floor, kept.batch.revision);
  }
}
