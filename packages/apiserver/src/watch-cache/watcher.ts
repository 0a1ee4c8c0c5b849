import { setMaxListeners } from 'node:events';
import { expired } from '@oarlock/api/status';
import type { Timer } from '@oarlock/primitives/clock';
import type { WatchFrame, WatchFrames } from '../endpoints/request/response.ts';
import { WatcherMemory, type AccountedWatcher } from './internal/watcher-memory.ts';
import type { WatchCacheEvent, SharedWatchFrame } from './watch-cache-event.ts';
import type { WatcherOptions } from './watcher-options.ts';
import type { Selection } from './selection.ts';
import { watchCacheLimits } from './watch-cache-limits.ts';

/** The maximum number of frames that wait for a reader. */
export const maxQueuedFrames = 16_384;
const batchFrames = 500;
/** The maximum number of bytes of a batch, which is encoded at once. A larger frame is a batch of its own. */
const batchBytes = 1024 * 1024;
const bookmarkIntervalMs = 60_000;
const finalBookmarkMs = 2_000;

interface PendingRead {
  resolve(result: IteratorResult<readonly WatchFrame[]>): void;
  reject(error: unknown): void;
}

/**
 * A watch of one resource (cacheWatcher upstream). The cache pushes events, and the reader takes them in batches. A watcher whose reader is too slow
 * is terminated with the error `Expired`, after which its client can list again.
 */
export class Watcher implements WatchFrames, AsyncIterator<readonly WatchFrame[]>, AccountedWatcher {
  readonly selection: Selection;
  readonly #options: WatcherOptions;
  readonly #memory: WatcherMemory;
  readonly #maxBytes: number;
  #initial: Iterator<SharedWatchFrame> | undefined;
  #queue: SharedWatchFrame[] = [];
  /** The batch that the reader took last. The reader holds the batch until its next read. */
  #inFlight: readonly SharedWatchFrame[] = [];
  #heldBytes = 0;
  /** The size of the queued events of a resumed watch. These events count towards the shared limit, but not towards the limit of this watcher. */
  #replayedBytes = 0;
  #lastReadAt: number;
  #pendingRead: PendingRead | undefined;
  #ended = false;
  #error: Error | undefined;
  #tooSlow = false;
  #timer: Timer | undefined;
  readonly #deadline: number;
  #abort: (() => void) | undefined;
  #onTerminated: (() => void) | undefined;

  constructor(options: WatcherOptions) {
    this.selection = options.selection;
    this.#options = options;
    this.#memory = options.memory ?? new WatcherMemory(watchCacheLimits.totalWatcherBytes);
    this.#maxBytes = options.maxBytes ?? watchCacheLimits.watcherBytes;
    this.#initial = options.initial;
    this.#lastReadAt = options.clock.monotonic();
    this.#deadline = this.#lastReadAt + options.timeoutMs;
    const { signal } = options;
    if (signal?.aborted) this.#finish(undefined);
    else {
      this.#memory.add(this);
      // the client has gone: no reader may come that would release the frames
      this.#abort = () => {
        this.#releaseAll();
        this.end();
      };
      // one signal may end all watches of a client
      if (signal !== undefined) setMaxListeners(0, signal);
      signal?.addEventListener('abort', this.#abort, { once: true });
      this.#scheduleBookmark();
    }
  }

  get ended(): boolean {
    return this.#ended;
  }
  /** True if the watcher was terminated because its reader was too slow. */
  get isTooSlow(): boolean {
    return this.#tooSlow;
  }
  get heldBytes(): number {
    return this.#heldBytes;
  }
  get lastReadAt(): number {
    return this.#lastReadAt;
  }

  push(event: WatchCacheEvent): void {
    const frame = this.#frameOf(event);
    if (frame !== undefined) this.#enqueue(frame);
  }

  /** Queues the past events with which a resumed watch begins. Their size is limited by that of the event ring. */
  replay(events: Iterable<WatchCacheEvent>): void {
    for (const event of events) {
      const frame = this.#frameOf(event);
      if (frame === undefined) continue;
      this.#queue.push(frame);
      this.#hold(frame);
    }
    this.#replayedBytes = this.#heldBytes;
  }

  /** Ends the watch without an error, after the queued frames. */
  end(): void {
    this.#finish(undefined);
  }

  /** Ends the watch with an error, and drops the queued frames. */
  fail(error: Error): void {
    this.#releaseAll();
    this.#finish(error);
  }

  /**
   * Terminates the watch because its reader is too slow. The reader receives the error `Expired`, or, if the watch has already ended, the end without
   * the queued frames.
   */
  terminate(): void {
    if (this.#tooSlow) return;
    this.#tooSlow = true;
    if (this.#ended) this.#releaseAll();
    else this.fail(expired('too old resource version: the watcher did not keep up with the events'));
    this.#onTerminated?.();
  }

  onTerminated(listener: () => void): void {
    this.#onTerminated = listener;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<readonly WatchFrame[]>> {
    const batch = this.#takeBatch();
    if (batch !== undefined) return Promise.resolve({ done: false, value: batch });
    if (this.#error !== undefined) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    if (this.#pendingRead !== undefined) return Promise.reject(new Error('a watch has one reader'));
    return new Promise((resolve, reject) => {
      this.#pendingRead = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<readonly WatchFrame[]>> {
    this.#releaseAll();
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  #frameOf(event: WatchCacheEvent): SharedWatchFrame | undefined {
    if (this.#ended || event.revision <= this.#options.after) return undefined;
    return event.frame(this.#matches(event.previous), this.#matches(event.current), this.#options.viewer);
  }

  #matches(item: WatchCacheEvent['current']): boolean {
    if (item === undefined) return false;
    const { namespace, key, indexed, matches } = this.selection;
    if (key !== undefined && key !== item.key) return false;
    if (namespace !== '' && key === undefined && !(item.key.startsWith(namespace) && item.key.charCodeAt(namespace.length) === 47))
      return false;
    if (indexed !== undefined && this.#options.indexOf?.(item) !== indexed) return false;
    return matches === undefined || matches(item.object);
  }

  #enqueue(frame: SharedWatchFrame): void {
    const queued = this.#queue.length;
    // a reader that waits for frames is not slow, however large this one is
    const isWaiting = this.#pendingRead !== undefined && this.#initial === undefined && queued === 0;
    if (!isWaiting && (queued >= maxQueuedFrames || (queued > 0 && this.#heldBytes + frame.bytes > this.#maxBytes + this.#replayedBytes))) {
      this.terminate();
      return;
    }
    this.#queue.push(frame);
    this.#hold(frame);
    // one microtask later, so that all events of one turn are delivered together
    if (isWaiting) queueMicrotask(() => this.#deliver());
  }

  #deliver(): void {
    const read = this.#pendingRead;
    if (read === undefined) return;
    const batch = this.#takeBatch();
    if (batch === undefined) return;
    this.#pendingRead = undefined;
    read.resolve({ done: false, value: batch });
  }

  /** Returns the next batch of frames, which the reader holds until the next call. */
  #takeBatch(): readonly WatchFrame[] | undefined {
    this.#releaseInFlight();
    this.#lastReadAt = this.#options.clock.monotonic();
    const batch = this.#takeInitial() ?? this.#takeQueued();
    this.#inFlight = batch ?? [];
    if (batch === undefined && this.#ended) this.#memory.remove(this);
    return batch;
  }

  #takeInitial(): readonly SharedWatchFrame[] | undefined {
    if (this.#initial === undefined) return undefined;
    const batch: SharedWatchFrame[] = [];
    for (let bytes = 0; batch.length < batchFrames && bytes < batchBytes; ) {
      const { done, value } = this.#initial.next();
      if (done === true) {
        this.#initial = undefined;
        break;
      }
      batch.push(value);
      bytes += value.bytes;
      this.#hold(value);
    }
    return batch.length > 0 ? batch : undefined;
  }

  #takeQueued(): readonly SharedWatchFrame[] | undefined {
    if (this.#queue.length === 0) return undefined;
    let end = 0;
    for (let bytes = 0; end < this.#queue.length && bytes < batchBytes; end++) bytes += this.#queue[end]?.bytes ?? 0;
    // the changes of one commit stay together
    while (end < this.#queue.length && this.#queue[end]?.item.revision === this.#queue[end - 1]?.item.revision) end++;
    if (end < this.#queue.length) return this.#queue.splice(0, end);
    const batch = this.#queue;
    this.#queue = [];
    this.#replayedBytes = 0;
    return batch;
  }

  #hold(frame: SharedWatchFrame): void {
    this.#heldBytes += frame.bytes;
    this.#memory.hold(frame);
  }

  #releaseInFlight(): void {
    if (this.#inFlight.length === 0) return;
    for (const frame of this.#inFlight) this.#release(frame);
    this.#inFlight = [];
  }

  #releaseAll(): void {
    this.#releaseInFlight();
    for (const frame of this.#queue) this.#release(frame);
    this.#queue = [];
    this.#initial = undefined;
    if (this.#ended) this.#memory.remove(this);
  }

  #release(frame: SharedWatchFrame): void {
    this.#heldBytes -= frame.bytes;
    this.#memory.release(frame);
  }

  #scheduleBookmark(): void {
    const { clock, random, bookmark } = this.#options;
    const left = this.#deadline - clock.monotonic();
    const next =
      bookmark === undefined
        ? left
        : Math.min(bookmarkIntervalMs * (0.75 + random() / 2), left > finalBookmarkMs ? left - finalBookmarkMs : left);
    this.#timer = clock.after(Math.max(0, next), () => {
      if (this.#ended) return;
      if (clock.monotonic() >= this.#deadline) {
        this.end();
        return;
      }
      if (bookmark !== undefined) this.#enqueue(bookmark());
      if (!this.#ended) this.#scheduleBookmark();
    });
  }

  #finish(error: Error | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    if (this.#abort !== undefined) this.#options.signal?.removeEventListener('abort', this.#abort);
    this.#options.onEnd();
    if (this.#heldBytes === 0 && this.#initial === undefined) this.#memory.remove(this);
    const read = this.#pendingRead;
    if (read === undefined) {
      this.#error = error;
      return;
    }
    this.#pendingRead = undefined;
    const batch = this.#takeBatch();
    if (batch !== undefined) {
      this.#error = error;
      read.resolve({ done: false, value: batch });
      return;
    }
    if (error === undefined) read.resolve({ done: true, value: undefined });
    else read.reject(error);
  }
}
