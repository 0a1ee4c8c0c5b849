import type { Change, ChangeBatch, Revision } from '@oarlock/spi/storage';
import { PrefixIndex } from '../prefix-index.ts';
import type { WatchQueue } from '../watch-queue.ts';

/** The watches of one prefix. All of them receive the same batch objects. */
interface Group {
  readonly prefix: string;
  readonly queues: Set<WatchQueue>;
  pending: Change[];
  pendingBytes: number;
}

const bytesOf = (change: Change) => (change.type === 'put' ? change.entry.value.length : 0) + (change.previous?.value.length ?? 0);

/**
 * Delivers each committed change to the watches whose prefix the key starts with. Changes that are published within one turn of the event
 * loop are delivered as one batch.
 */
export class ChangeBroadcaster {
  readonly #groups = new PrefixIndex<Group>();
  readonly #dirty: Group[] = [];
  #revision: Revision;
  #scheduled = false;
  #progress = false;
  #watches = 0;

  constructor(revision: Revision) {
    this.#revision = revision;
  }

  get size(): number {
    return this.#watches;
  }
  get steps(): number {
    return this.#groups.steps;
  }

  /** Queues one change of a commit for delivery. The caller must call `advance` with the revision of the commit in the same event loop turn. */
  publish(key: string, change: Change): void {
    if (this.#watches === 0) return;
    for (let found = this.#groups.find(key); found; found = found.parent) {
      const group = found.value;
      if (group.pending.length === 0) this.#dirty.push(group);
      group.pending.push(change);
      group.pendingBytes += bytesOf(change);
    }
  }

  advance(revision: Revision): void {
    this.#revision = revision;
    if (this.#dirty.length > 0) this.#schedule();
  }

  /** Schedules a progress notification to every watch. */
  progress(): void {
    if (this.#watches === 0) return;
    this.#progress = true;
    this.#schedule();
  }

  /** Adds a watch, which receives all later commits. The caller must already have put the earlier commits into `queue`. */
  add(prefix: string, queue: WatchQueue): void {
    this.flush();
    let group = this.#groups.get(prefix);
    if (!group) this.#groups.add(prefix, (group = { prefix, queues: new Set(), pending: [], pendingBytes: 0 }));
    group.queues.add(queue);
    this.#watches += 1;
  }

  remove(prefix: string, queue: WatchQueue): void {
    const group = this.#groups.get(prefix);
    if (!group?.queues.delete(queue)) return;
    this.#watches -= 1;
    if (group.queues.size === 0) this.#groups.delete(prefix);
  }

  /** Delivers pending changes and progress notifications at once. */
  flush(): void {
    for (const group of this.#dirty.splice(0)) {
      const batch: ChangeBatch = { changes: group.pending, revision: this.#revision };
      const bytes = group.pendingBytes;
      group.pending = [];
      group.pendingBytes = 0;
      for (const queue of group.queues) queue.push(batch, bytes);
    }
    if (!this.#progress) return;
    this.#progress = false;
    const batch: ChangeBatch = { changes: [], revision: this.#revision };
    for (const { value } of this.#groups.values()) for (const queue of value.queues) queue.push(batch, 0);
  }

  failAll(error: unknown): void {
    for (const { value } of [...this.#groups.values()]) for (const queue of [...value.queues]) queue.fail(error);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.flush();
    });
  }
}
