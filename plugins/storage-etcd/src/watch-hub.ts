import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { StorageError, type ChangeBatch, type Revision } from '@oarlock/spi/storage';
import type { EtcdConnection } from './etcd-connection.ts';
import { storageError } from './etcd-errors.ts';
import { int, rpcs } from './etcd-messages.ts';
import { checkText, type KeySpace } from './key-space.ts';
import { Shared } from './shared-call.ts';
import { WatchFeed, type FeedOwner, type Watcher } from './watch-feed.ts';
import { WatchQueue, type QueueLimits } from '@oarlock/mvcc/watch-queue';

/**
 * Serves all watches of a driver, mostly from one feed. A watch from further back than that one remembers gets a feed of its own, which
 * is given up when it has come as far as another one.
 */
export class WatchHub implements FeedOwner {
  readonly connection: EtcdConnection;
  readonly keys: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
  readonly #limits: QueueLimits;
  readonly #feeds = new Set<WatchFeed>();
  readonly #feedOf = new Map<WatchQueue, { feed: WatchFeed; readonly watcher: Watcher }>();
  /** Watches for which it is not known yet whether their revision is one of the future. */
  readonly #unchecked = new Set<Watcher>();
  readonly #newest: Shared<Revision>;
  readonly #mark: Shared<void>;
  #checking = false;
  #compacted: Revision = 0;
  #stopped = false;

  constructor(
    connection: EtcdConnection,
    keys: KeySpace,
    limits: QueueLimits,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.connection = connection;
    this.keys = keys;
    this.clock = clock;
    this.log = log;
    this.#limits = limits;
    this.#newest = new Shared(async () =>
      int((await connection.call(rpcs.range, { key: keys.marker, keys_only: true }, { repeated: true })).header.revision),
    );
    this.#mark = new Shared(async () => {
      await connection.call(rpcs.put, { key: keys.marker, value: Buffer.alloc(0) }, { repeated: true });
    });
  }

  get size(): number {
    return this.#feedOf.size;
  }
  get feeds(): number {
    return this.#feeds.size;
  }

  /** @throws GrpcError */
  newest(): Promise<Revision> {
    return this.#newest.call();
  }
  mark(): Promise<void> {
    return this.#mark.call();
  }

  /** Resolves with the newest revision. Every watch reports it when it is there. @throws GrpcError */
  async progress(): Promise<Revision> {
    const revision = await this.newest();
    for (const feed of [...this.#feeds]) feed.want(revision);
    return revision;
  }

  watch(prefix: string, after: Revision, signal: AbortSignal): AsyncIterable<ChangeBatch> {
    const queue = new WatchQueue(this.#limits, signal, (ended) => this.#remove(ended));
    if (queue.ended) return queue;
    if (this.#stopped) {
      queue.fail(new StorageError('Unavailable', 'the storage is stopped'));
      return queue;
    }
    try {
      checkText(prefix);
      // a feed may still remember what this driver had compacted: refused all the same, as a new feed would be
      if (after < this.#compacted)
        throw new StorageError('Compacted', `revision ${after} is compacted: the oldest one is ${this.#compacted}`);
    } catch (error) {
      queue.fail(error);
      return queue;
    }
    const watcher: Watcher = { prefix, after, queue };
    let feed = [...this.#feeds].find((each) => each.covers(after));
    if (!feed) this.#feeds.add((feed = new WatchFeed(this, after)));
    this.#feedOf.set(queue, { feed, watcher });
    feed.add(watcher);
    this.#unchecked.add(watcher);
    if (!this.#checking) void this.#check();
    return queue;
  }

  compacted(revision: Revision): void {
    this.#compacted = Math.max(this.#compacted, revision);
  }

  moved(feed: WatchFeed): void {
    if (this.#feeds.size === 1) return;
    for (const other of this.#feeds) {
      if (other === feed || other.position < feed.position || !other.covers(feed.position)) continue;
      const { position } = feed;
      for (const watcher of feed.release()) {
        const served = this.#feedOf.get(watcher.queue);
        if (!served) continue;
        served.feed = other;
        other.add(watcher, Math.max(position, watcher.after));
      }
      // those that moved may be waiting for a report
      void this.progress().catch((error: unknown) => this.#unknown(error));
      return;
    }
  }

  closed(feed: WatchFeed): void {
    this.#feeds.delete(feed);
  }

  stop(): void {
    this.#stopped = true;
    const error = new StorageError('Unavailable', 'the storage is stopped');
    for (const feed of [...this.#feeds]) {
      feed.failAll(error);
      feed.close();
    }
  }

  /** Tells new watches how far they have caught up, or that they are ahead of the store. */
  async #check(): Promise<void> {
    this.#checking = true;
    for (let attempt = 0; this.#unchecked.size > 0 && !this.#stopped; attempt += 1) {
      const watchers = [...this.#unchecked];
      try {
        const newest = await this.newest();
        for (const { after, queue } of watchers) {
          if (after > newest)
            queue.fail(new StorageError('FutureRevision', `revision ${after} is in the future: the store is at ${newest}`));
        }
        for (const watcher of watchers) this.#unchecked.delete(watcher);
        for (const feed of [...this.#feeds]) feed.want(newest);
        attempt = 0;
      } catch (error) {
        // the watches wait for etcd, as those do that are interrupted
        this.#unknown(error);
        if (!this.#stopped) await this.clock.sleep(this.connection.pause(attempt));
      }
    }
    this.#checking = false;
  }

  #unknown(error: unknown): void {
    const { message } = storageError(error) as Error;
    if (!this.#stopped) this.log.warn({ error: message }, 'the newest revision cannot be read');
  }

  #remove(queue: WatchQueue): void {
    const served = this.#feedOf.get(queue);
    if (!served) return;
    this.#feedOf.delete(queue);
    this.#unchecked.delete(served.watcher);
    served.feed.remove(served.watcher);
  }
}
