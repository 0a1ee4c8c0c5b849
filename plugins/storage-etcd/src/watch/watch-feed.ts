import { errorText } from '@oarlock/primitives/error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { StorageError, type Change, type ChangeBatch, type Revision } from '@oarlock/spi/storage';
import type { EtcdConnection } from '../client/etcd-connection.ts';
import { int, rpcs, type Event, type WatchRequest, type WatchResponse } from '../rpc/etcd-messages.ts';
import { bytesOf, changeOf, revisionOf } from './event-changes.ts';
import type { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Duplex } from '../rpc/grpc-session.ts';
import type { KeySpace } from '../client/key-space.ts';
import { PrefixIndex } from '@oarlock/mvcc/prefix-index';
import { RecentChanges } from './recent-changes.ts';
import type { WatchQueue } from '@oarlock/mvcc/watch-queue';

/** The watch of one reader. */
export interface Watcher {
  readonly prefix: string;
  readonly after: Revision;
  readonly queue: WatchQueue;
}

export interface FeedOwner {
  readonly connection: EtcdConnection;
  readonly keys: KeySpace;
  readonly clock: Clock;
  readonly log: Logger;
  /** Advances the store's revision by writing a marker that no reader sees. */
  mark(): Promise<void>;
  /** Returns the newest revision (linearizable). */
  newest(): Promise<Revision>;
  /** Called when the feed's position has advanced. */
  moved(feed: WatchFeed): void;
  /** Called when the feed has ended and has no watchers. */
  closed(feed: WatchFeed): void;
}

/** Returns true for versions that send requested progress reports in order with events (etcd issues 15220 and 17507). */
export function reportsProgress(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  if (Number.isNaN(major + minor + patch)) return false;
  if (major !== 3) return major > 3;
  return minor > 5 || (minor === 5 && patch >= 13) || (minor === 4 && patch >= 31);
}

const pause = { requested: 100, marked: 20, most: 1_000, requests: 5 };

/**
 * One etcd watch of everything below the root, which serves the readers' watches.
 *
 * It receives all changes in order, so an event proves that all earlier ones were received: the feed's position is the revision of the
 * last complete message. A progress report counts only from servers that send it in order with events.
 */
export class WatchFeed {
  readonly recent: RecentChanges;
  /** All changes up to this revision were received. */
  position: Revision;
  readonly #owner: FeedOwner;
  readonly #groups = new PrefixIndex<Set<Watcher>>();
  readonly #stop = new AbortController();
  #watchers = 0;
  #stream: Duplex<WatchRequest> | undefined;
  #created = false;
  #trusted = false;
  /** Events of an incomplete message. */
  #fragments: Event[] = [];
  #requestedRevision: Revision = 0;
  #requestCount = 0;
  #nudge: Timer | undefined;

  constructor(owner: FeedOwner, after: Revision) {
    this.#owner = owner;
    this.position = after;
    this.recent = new RecentChanges(after);
    void this.#run();
  }

  get size(): number {
    return this.#watchers;
  }

  /** Returns true if the feed can serve a watch from `after`: it still has all later changes. */
  covers(after: Revision): boolean {
    return after >= this.recent.floor;
  }

  /** Starts to serve a watcher from `from` on. */
  add(watcher: Watcher, from: Revision = watcher.after): void {
    for (const batch of this.recent.since(from, watcher.prefix)) watcher.queue.push(batch, 0, { backlog: true });
    let group = this.#groups.get(watcher.prefix);
    if (!group) this.#groups.add(watcher.prefix, (group = new Set()));
    group.add(watcher);
    this.#watchers += 1;
  }

  remove(watcher: Watcher): void {
    const group = this.#groups.get(watcher.prefix);
    if (!group?.delete(watcher)) return;
    this.#watchers -= 1;
    if (group.size === 0) this.#groups.delete(watcher.prefix);
    if (this.#watchers === 0) this.close();
  }

  /** Removes and returns all watchers, so that another feed can serve them. */
  release(): Watcher[] {
    const watchers = [...this.#all()];
    for (const { prefix } of watchers) this.#groups.delete(prefix);
    this.#watchers = 0;
    this.close();
    return watchers;
  }

  /** Sends progress to every watcher as soon as everything up to `revision` was received. */
  requestProgress(revision: Revision): void {
    if (this.position >= revision) {
      this.#report();
      return;
    }
    if (revision > this.#requestedRevision) {
      this.#requestedRevision = revision;
      this.#requestCount = 0;
    }
    this.#requestPosition();
  }

  failAll(error: unknown): void {
    for (const { queue } of [...this.#all()]) queue.fail(error);
  }

  close(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#nudge?.cancel();
    this.#stream?.cancel();
    this.#owner.closed(this);
  }

  *#all(): Iterable<Watcher> {
    for (const { value } of this.#groups.values()) yield* value;
  }

  /** Keeps the watch open. After an interruption it resumes at the position and skips duplicates. */
  async #run(): Promise<void> {
    const { connection, clock, log } = this.#owner;
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; ) {
      const before = this.position;
      try {
        const { session, version } = await connection.member(signal);
        this.#trusted = reportsProgress(version);
        const error = await new Promise<GrpcError>((resolve) => {
          this.#stream = session.duplex<WatchRequest, WatchResponse>(
            rpcs.watch,
            { hasleader: 'true' },
            { message: (message) => this.#take(message), ended: resolve },
          );
          // etcd checks compaction against the first requested revision: asking for one earlier makes it reject exactly when needed
          this.#stream.send({
            create_request: { ...this.#owner.keys.all, start_revision: Math.max(1, this.position), prev_kv: true, fragment: true },
          });
          if (signal.aborted) this.#stream.cancel();
        });
        if (signal.aborted) return;
        log.info({ error: error.message, revision: this.position }, 'the watch was interrupted');
        // a member without leader keeps its connections: connect to another one
        if (error.message.includes('no leader')) session.close(error);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ error: errorText(error) }, 'the watch cannot be opened');
      }
      this.#stream = undefined;
      this.#created = false;
      this.#fragments = [];
      this.#nudge?.cancel();
      this.#nudge = undefined;
      failures = this.position > before ? 0 : failures + 1;
      // a rejection after a stop is not an error
      if (failures > 0) await clock.sleep(connection.pause(failures - 1), signal).catch(() => {});
    }
  }

  #take(response: WatchResponse): void {
    if (this.#stop.signal.aborted) return;
    if (response.canceled) {
      this.#canceled(response);
      return;
    }
    if (response.created) {
      this.#created = true;
      if (int(response.header.revision) < this.position) void this.#checkRollback();
      if (this.position < this.#requestedRevision) this.#requestPosition();
    }
    if (int(response.watch_id) === -1) {
      if (this.#created && this.#trusted) this.#moveTo(int(response.header.revision));
    } else if (response.events.length > 0 || this.#fragments.length > 0) {
      if (response.fragment) {
        this.#fragments.push(...response.events);
        return;
      }
      const events = this.#fragments.length > 0 ? [...this.#fragments, ...response.events] : response.events;
      this.#fragments = [];
      this.#publish(events);
    }
  }

  #canceled({ compact_revision, cancel_reason }: WatchResponse): void {
    if (int(compact_revision) > 0) {
      this.failAll(new StorageError('Compacted', `revision ${this.position} is compacted: the oldest one is ${int(compact_revision)}`));
      this.close();
      return;
    }
    this.#owner.log.warn({ reason: cancel_reason }, 'etcd cancelled the watch');
    this.#stream?.cancel();
  }

  /** Detects a store that was restored from a backup: its revision is lower than one seen before, and later revisions would have another meaning. */
  async #checkRollback(): Promise<void> {
    const newest = await this.#owner.newest().catch((error: unknown) => {
      this.#owner.log.warn({ error: errorText(error) }, 'the newest revision cannot be read');
      return this.position;
    });
    if (newest >= this.position || this.#stop.signal.aborted) return;
    this.failAll(new StorageError('FutureRevision', `the store is at ${newest}, though ${this.position} was seen: it has lost data`));
    this.close();
  }

  #publish(events: readonly Event[]): void {
    const changes: Change[] = [];
    const touched = new Map<Set<Watcher>, { changes: Change[]; bytes: number }>();
    let revision = this.position;
    for (const event of events) {
      const at = int(event.kv.mod_revision);
      if (at <= this.position) continue;
      revision = at;
      if (this.#owner.keys.isMarker(event.kv.key)) continue;
      const key = this.#owner.keys.decode(event.kv.key);
      const found = this.#groups.find(key);
      const change = changeOf(event, key, at);
      if (!change) {
        // compaction overtook this event, so its previous value is unknown and its watchers must list again
        for (let group = found; group; group = group.parent)
          for (const { queue } of [...group.value]) queue.fail(new StorageError('Compacted', `revision ${at} was compacted on its way`));
        this.recent.clear(at);
        continue;
      }
      changes.push(change);
      for (let group = found; group; group = group.parent) {
        const pending = touched.get(group.value);
        if (pending) {
          pending.changes.push(change);
          pending.bytes += bytesOf(change);
        } else touched.set(group.value, { changes: [change], bytes: bytesOf(change) });
      }
    }
    if (this.#stop.signal.aborted) return;
    for (const [watchers, pending] of touched) deliver(watchers, { changes: pending.changes, revision }, pending.bytes);
    if (changes.length > 0) this.recent.add({ changes, revision });
    this.#moveTo(revision);
  }

  #moveTo(revision: Revision): void {
    if (revision <= this.position) return;
    this.position = revision;
    if (this.#requestedRevision > 0 && revision >= this.#requestedRevision) {
      this.#requestedRevision = 0;
      this.#nudge?.cancel();
      this.#nudge = undefined;
      this.#report();
    }
    this.#owner.moved(this);
  }

  #report(): void {
    const batch: ChangeBatch = { changes: [], revision: this.position };
    for (const { after, queue } of this.#all()) if (after <= this.position) queue.push(batch, 0);
  }

  /** Makes the feed learn the current revision even without events: by a progress request, or by writing the marker. */
  #requestPosition(): void {
    if (!this.#created || this.#nudge || this.#stop.signal.aborted) return;
    const request = this.#trusted && this.#requestCount < pause.requests;
    if (request) this.#stream?.send({ progress_request: {} });
    const wait = request ? pause.requested : Math.min(pause.most, pause.marked * 2 ** Math.min(this.#requestCount, 10));
    this.#requestCount += 1;
    this.#nudge = this.#owner.clock.after(wait, () => {
      // usually the events arrive first, and this is not reached
      const ready = request ? Promise.resolve() : this.#owner.mark();
      void ready
        .catch((error: unknown) => {
          this.#owner.log.warn({ error: errorText(error) }, 'the progress marker cannot be written');
        })
        .then(() => {
          this.#nudge = undefined;
          if (this.position < this.#requestedRevision) this.#requestPosition();
        });
    });
  }
}

function deliver(watchers: Set<Watcher>, batch: ChangeBatch, bytes: number): void {
  const first = batch.changes[0];
  const from = first ? revisionOf(first) : batch.revision;
  for (const { after, queue } of [...watchers]) {
    if (after < from) {
      queue.push(batch, bytes);
      continue;
    }
    // started at a revision that this feed had not reached
    const changes = batch.changes.filter((change) => revisionOf(change) > after);
    if (changes.length > 0) queue.push({ changes, revision: batch.revision }, bytes);
  }
}
