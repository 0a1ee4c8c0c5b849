import { setMaxListeners } from 'node:events';
import { expired } from '@oarlock/api/status';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { WatchFrame } from '../request/response.ts';
import type { WatchCacheEvent, ItemConverter } from './item.ts';
import type { Selection } from './selection.ts';

export interface WatcherOptions {
  readonly selection: Selection;
  /** Of the index field; present where the resource is indexed. */
  readonly indexOf: ((event: WatchCacheEvent['current']) => string | undefined) | undefined;
  readonly viewer: ItemConverter | undefined;
  /** Events up to this revision are known to the reader. */
  readonly after: number;
  /** Made as the reader comes for them, so that a large start holds nobody up. */
  readonly initial: Iterator<WatchFrame>;
  /** Makes a bookmark, where the reader asked for them. */
  readonly bookmark: (() => WatchFrame) | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly onEnd: () => void;
}

/** As many frames wait for a reader that does not come back. */
export const maxQueuedFrames = 16_384;
const batchSize = 500;
const bookmarkIntervalMs = 60_000;
const finalBookmarkMs = 2_000;

/** One reader of one resource's events. The cache pushes; the reader takes all that is there at once. */
export class Watcher implements AsyncIterable<readonly WatchFrame[]>, AsyncIterator<readonly WatchFrame[]> {
  readonly selection: Selection;
  readonly #options: WatcherOptions;
  #initial: Iterator<WatchFrame> | undefined;
  #queue: WatchFrame[] = [];
  #waiting: { resolve(result: IteratorResult<readonly WatchFrame[]>): void; reject(error: unknown): void } | undefined;
  #ended = false;
  #error: Error | undefined;
  #tooSlow = false;
  #timer: Timer | undefined;
  readonly #deadline: number;
  #abort: (() => void) | undefined;

  constructor(options: WatcherOptions) {
    this.selection = options.selection;
    this.#options = options;
    this.#initial = options.initial;
    this.#deadline = options.clock.monotonic() + options.timeoutMs;
    const { signal } = options;
    if (signal?.aborted) this.#finish(undefined);
    else {
      this.#abort = () => this.end();
      // one signal may end all watches of a client
      if (signal !== undefined) setMaxListeners(0, signal);
      signal?.addEventListener('abort', this.#abort, { once: true });
      this.#scheduleBookmark();
    }
  }

  get ended(): boolean {
    return this.#ended;
  }
  /** It ended since its reader did not keep up with the events. */
  get isTooSlow(): boolean {
    return this.#tooSlow;
  }

  push(event: WatchCacheEvent): void {
    if (this.#ended || event.revision <= this.#options.after) return;
    const { viewer } = this.#options;
    const frame = event.frame(this.#matches(event.previous), this.#matches(event.current), viewer);
    if (frame !== undefined) this.#enqueue(frame);
  }

  /** Ends without an error, after what is queued. */
  end(): void {
    this.#finish(undefined);
  }

  /** Ends with an error; what is queued is dropped. */
  fail(error: Error): void {
    this.#queue = [];
    this.#initial = undefined;
    this.#finish(error);
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
    if (this.#waiting !== undefined) return Promise.reject(new Error('a watch has one reader'));
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<readonly WatchFrame[]>> {
    this.#queue = [];
    this.#initial = undefined;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
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

  #enqueue(frame: WatchFrame): void {
    const waiting = this.#waiting;
    if (waiting !== undefined && this.#queue.length === 0 && this.#initial === undefined) {
      // one turn later, so that all events of a batch go out together
      this.#queue.push(frame);
      queueMicrotask(() => this.#deliver());
      return;
    }
    if (this.#queue.length >= maxQueuedFrames) {
      this.#tooSlow = true;
      this.fail(expired('too old resource version: the watcher did not keep up with the events'));
      return;
    }
    this.#queue.push(frame);
  }

  #deliver(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const batch = this.#takeBatch();
    if (batch === undefined) return;
    this.#waiting = undefined;
    waiting.resolve({ done: false, value: batch });
  }

  #takeBatch(): readonly WatchFrame[] | undefined {
    if (this.#initial !== undefined) {
      const batch: WatchFrame[] = [];
      while (batch.length < batchSize) {
        const { done, value } = this.#initial.next();
        if (done === true) {
          this.#initial = undefined;
          break;
        }
        batch.push(value);
      }
      if (batch.length > 0) return batch;
    }
    if (this.#queue.length === 0) return undefined;
    const batch = this.#queue;
    this.#queue = [];
    return batch;
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
    const waiting = this.#waiting;
    if (waiting === undefined) {
      this.#error = error;
      return;
    }
    const batch = this.#takeBatch();
    if (batch !== undefined) {
      this.#error = error;
      this.#waiting = undefined;
      waiting.resolve({ done: false, value: batch });
      return;
    }
    this.#waiting = undefined;
    if (error === undefined) waiting.resolve({ done: true, value: undefined });
    else waiting.reject(error);
  }
}
