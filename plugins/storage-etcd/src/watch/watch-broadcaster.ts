import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { StorageError, type ChangeBatch, type Revision } from '@oarlock/spi/storage';
import type { EtcdConnection } from '../client/etcd-connection.ts';
import { toStorageError } from '../client/etcd-errors.ts';
import { int, rpcs } from '../rpc/etcd-messages.ts';
import { checkText, type KeySpace } from '../client/key-space.ts';
import { SharedCall } from '@oarlock/primitives/concurrency/shared-call';
import { WatchFeed, type FeedOwner, type Watcher } from './watch-feed.ts';
import { WatchQueue, type QueueLimits } from '@oarlock/mvcc/watch-queue';

/** What the broadcaster shares with its session. */
export interface WatchBroadcasterOptions {
  readonly keys: KeySpace;
  readonly limits: QueueLimits;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Serves all watches of a driver, usually from one feed. A watch that starts before the changes which that feed remembers gets its own
 * feed, which is merged into another one when it has caught up.
 */
export class WatchBroadcaster implements FeedOwner {
  readonly connection: EtcdConnection;
  readonly keys: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
  readonly #limits: QueueLimits;
  readonly #feeds = new Set<WatchFeed>();
  readonly #feedOf = new Map<WatchQueue, { feed: WatchFeed; readonly watcher: Watcher }>();
  /** Watches whose start revision may be in the future. */
  readonly #unchecked = new Set<Watcher>();
  readonly #newest: SharedCall<Revision>;
  readonly #mark: SharedCall<void>;
  #checking = false;
  #compacted: Revision = 0;
  #stopped = false;

  constructor(connection: EtcdConnection, { keys, limits, clock, log }: WatchBroadcasterOptions) {
    this.connection = connection;
    this.keys = keys;
    this.clock = clock;
    this.log = log;
    this.#limits = limits;
    this.#newest = new SharedCall(async () =>
      int((await connection.call(rpcs.range, { key: keys.marker, keys_only: true }, { repeated: true })).header.revision),
    );
    this.#mark = new SharedCall(async () => {
      await connection.call(rpcs.put, { key: keys.marker, value: Buffer.alloc(0) }, { repeated: true });
    });
  }

  get size(): number {
    return this.#feedOf.size;
  }
  get feeds(): number {
    return this.#feeds.size;
  }

  /** Returns the newest revision. @throws GrpcError if etcd does not answer */
  newest(): Promise<Revision> {
    return this.#newest.call();
  }
  mark(): Promise<void> {
    return this.#mark.call();
  }

  /** Returns the newest revision. Every watch reports progress when it has reached it. @throws GrpcError */
  async progress(): Promise<Revision> {
    const revision = await this.newest();
    for (const feed of [...this.#feeds]) feed.requestProgress(revision);
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
      // a feed may still remember revisions that this driver compacted; they are rejected as by a new feed
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
      // moved watchers may be waiting for progress
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

  /** Requests progress for new watches, and fails those that start in the future. */
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
        for (const feed of [...this.#feeds]) feed.requestProgress(newest);
        attempt = 0;
      } catch (error) {
        // the watches wait until etcd is reachable, like interrupted ones
        this.#unknown(error);
        if (!this.#stopped) await this.clock.sleep(this.connection.pause(attempt));
      }
    }
    this.#checking = false;
  }

  #unknown(error: unknown): void {
    const { message } = toStorageError(error) as Error;
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
