import type { ChangeBatch, Revision } from '@oarlock/spi/storage';
import { bytesOf, revisionOf } from './event-changes.ts';

interface Kept {
  readonly batch: ChangeBatch;
  readonly bytes: number;
}

/** Beside the values: its objects. */
const changeBytes = 256;
const most = { changes: 10_000, bytes: 16 * 1024 * 1024 };

/** The last changes of a feed, for watches that are opened a little behind it. */
export class RecentChanges {
  /** All changes after this one are here. */
  floor: Revision;
  #kept: Kept[] = [];
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

  /** Forgets everything up to a revision, so that no watch is opened before it any more. */
  clear(upTo: Revision): void {
    while ((this.#kept[this.#first]?.batch.revision ?? Infinity) <= upTo) this.#drop();
    this.floor = Math.max(this.floor, upTo);
  }

  /** Changes under a prefix after a revision that is not before the floor. */
  since(after: Revision, prefix: string): ChangeBatch[] {
    const batches: ChangeBatch[] = [];
    for (let at = this.#after(after); at < this.#kept.length; at += 1) {
      const { batch } = this.#kept[at] as Kept;
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
      if ((this.#kept[middle] as Kept).batch.revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #drop(): void {
    const kept = this.#kept[this.#first] as Kept;
    this.#first += 1;
    this.#changes -= kept.batch.changes.length;
    this.#bytes -= kept.bytes;
    this.floor = Math.max(this.floor, kept.batch.revision);
  }
}
