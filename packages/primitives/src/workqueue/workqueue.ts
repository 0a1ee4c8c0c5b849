import type { Clock, Timer } from '../clock.ts';
import { Fifo } from '../collections/fifo.ts';
import { Heap, type HeapEntry } from '../collections/heap.ts';
import { ItemExponentialFailureRateLimiter, TokenBucket } from './rate-limiter.ts';

/** Identifies the span that enqueued a key. OpenTelemetry's SpanContext is one. */
export interface SpanIdentity {
  readonly traceId: string;
  readonly spanId: string;
}

/** The state of a queue at the time of a scrape. Times are milliseconds of the queue's clock. */
export interface WorkqueueState {
  readonly depth: number;
  readonly startedAt: Iterable<number>;
  readonly now: number;
}

/** Updates the metrics of one queue. Durations are in seconds. */
export interface WorkqueueMetrics {
  added(): void;
  retried(): void;
  queueDuration(seconds: number): void;
  workDuration(seconds: number): void;
}

export interface WorkqueueOptions {
  readonly clock: Clock;
  /** Creates the metrics of the queue; `state` returns its current state. None by default. */
  readonly metrics?: ((state: () => WorkqueueState) => WorkqueueMetrics) | undefined;
  /** Delay after the first failure of a key, and the maximum delay. The delay doubles with each further failure. Default: 5 ms to 1000 s. */
  readonly failureDelay?: { readonly firstMs: number; readonly longestMs: number };
  /** Limits the retries of all keys together; none by default. client-go's default is 10 per second with bursts of 100. */
  readonly overallLimit?: { readonly perSecond: number; readonly burst: number };
}

/** A key to process, with the spans that enqueued it. */
export interface WorkItem<K = string, S extends SpanIdentity = SpanIdentity> {
  readonly key: K;
  /** The first span context and at most 32 others. */
  readonly spanContexts: readonly S[];
  /** When the key was first added for this item, in milliseconds since the epoch. */
  readonly enqueuedAt: number;
}

interface Pending<S> {
  readonly spanContexts: S[];
  readonly enqueuedAt: number;
  readonly since: number;
}
interface Delayed<K, S> extends HeapEntry {
  readonly key: K;
  at: number;
  readonly spanContexts: S[];
  readonly order: number;
}

/** How many span contexts a key keeps in addition to the first. */
export const maxLinks = 32;

/**
 * A queue of keys (client-go's workqueue): a key is queued once however often it is added, is processed by one worker at a time, and
 * is queued again if it was added during processing. A worker that gets a key with `get` must call `done`.
 */
export class Workqueue<K = string, S extends SpanIdentity = SpanIdentity> {
  readonly #clock: Clock;
  readonly #metrics: WorkqueueMetrics | undefined;
  readonly #delays: ItemExponentialFailureRateLimiter<K>;
  readonly #overall: TokenBucket | undefined;
  /** Keys to process: those in the queue, and those that are to be processed again after the current processing. */
  readonly #dirty = new Map<K, Pending<S>>();
  readonly #working = new Map<K, number>();
  readonly #queue = new Fifo<K>();
  readonly #delayed = new Map<K, Delayed<K, S>>();
  readonly #heap = new Heap<Delayed<K, S>>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  readonly #waiters = new Fifo<(work: WorkItem<K, S> | undefined) => void>();
  #order = 0;
  #timer: { readonly at: number; readonly handle: Timer } | undefined;
  #closed = false;
  #drained: (() => void)[] = [];

  constructor({ clock, metrics, failureDelay = { firstMs: 5, longestMs: 1_000_000 }, overallLimit: overall }: WorkqueueOptions) {
    this.#clock = clock;
    this.#delays = new ItemExponentialFailureRateLimiter(failureDelay);
    this.#overall = overall && new TokenBucket({ ...overall, now: clock.monotonic() });
    this.#metrics = metrics?.(() => ({ depth: this.length, startedAt: this.#working.values(), now: clock.monotonic() }));
  }

  /** Number of queued keys, without delayed keys and keys in processing. */
  get length(): number {
    return this.#queue.size;
  }
  get isShuttingDown(): boolean {
    return this.#closed;
  }

  add(key: K, spanContext?: S): void {
    this.#add(key, spanContext === undefined ? [] : [spanContext]);
  }

  /** Adds the key after `ms` milliseconds. If the key is already delayed, the earlier time applies. */
  addAfter(key: K, ms: number, ...spanContexts: readonly S[]): void {
    if (this.#closed) return;
    if (ms <= 0) {
      this.#add(key, spanContexts);
      return;
    }
    const at = this.#clock.monotonic() + ms;
    const known = this.#delayed.get(key);
    if (known !== undefined) {
      join(known.spanContexts, spanContexts);
      if (at < known.at) {
        known.at = at;
        this.#heap.fix(known);
      }
    } else {
      const entry: Delayed<K, S> = { key, at, spanContexts: join<S>([], spanContexts), order: this.#order++, heapIndex: -1 };
      this.#delayed.set(key, entry);
      this.#heap.push(entry);
    }
    this.#arm();
  }

  /** Adds the key after a backoff that doubles with its consecutive failures. Returns the delay in milliseconds. */
  addRateLimited(key: K, ...spanContexts: readonly S[]): number {
    const delay = Math.max(this.#delays.when(key), this.#overall?.reserve(this.#clock.monotonic()) ?? 0);
    if (!this.#closed) this.#metrics?.retried();
    this.addAfter(key, delay, ...spanContexts);
    return delay;
  }

  /** Resets the backoff of a key after a success. */
  forget(key: K): void {
    this.#delays.forget(key);
  }
  /** Returns the number of consecutive failures of a key since the last `forget`. */
  numRequeues(key: K): number {
    return this.#delays.failures(key);
  }

  /** Cancels a delayed add, for a caller that processes the key now. */
  cancelDelayed(key: K): void {
    const entry = this.#delayed.get(key);
    if (entry === undefined) return;
    this.#delayed.delete(key);
    this.#heap.remove(entry);
    this.#arm();
  }

  /** Resolves with the next key. Resolves with undefined when the queue is shut down and empty. */
  get(): Promise<WorkItem<K, S> | undefined> {
    const key = this.#queue.shift();
    if (key !== undefined) return Promise.resolve(this.#take(key));
    if (this.#closed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  done(key: K): void {
    const startedAt = this.#working.get(key);
    if (startedAt === undefined) return;
    this.#working.delete(key);
    this.#metrics?.workDuration((this.#clock.monotonic() - startedAt) / 1000);
    if (this.#dirty.has(key)) this.#enqueue(key);
    else this.#checkDrained();
  }

  /** Rejects further keys. Queued keys are still handed out; after them, `get` resolves with undefined. */
  shutDown(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.handle.cancel();
    this.#timer = undefined;
    this.#delayed.clear();
    for (let top = this.#heap.pop(); top !== undefined; top = this.#heap.pop());
    for (let taker = this.#waiters.shift(); taker !== undefined; taker = this.#waiters.shift()) taker(undefined);
    this.#checkDrained();
  }

  /** Shuts down, and resolves when all keys are processed. Workers must continue to call `get`. */
  shutDownWithDrain(): Promise<void> {
    const drained = new Promise<void>((resolve) => {
      this.#drained.push(resolve);
    });
    this.shutDown();
    this.#checkDrained();
    return drained;
  }

  #add(key: K, spanContexts: readonly S[]): void {
    if (this.#closed) return;
    const known = this.#dirty.get(key);
    if (known !== undefined) {
      join(known.spanContexts, spanContexts);
      return;
    }
    this.#metrics?.added();
    this.#dirty.set(key, { spanContexts: join<S>([], spanContexts), enqueuedAt: this.#clock.now(), since: this.#clock.monotonic() });
    if (!this.#working.has(key)) this.#enqueue(key);
  }

  #enqueue(key: K): void {
    // a worker waits only if the queue is empty, so the key can be passed to it directly
    const taker = this.#waiters.shift();
    if (taker === undefined) this.#queue.push(key);
    else taker(this.#take(key));
  }

  #take(key: K): WorkItem<K, S> {
    const { spanContexts, enqueuedAt, since } = this.#dirty.get(key) ?? {
      spanContexts: [],
      enqueuedAt: this.#clock.now(),
      since: this.#clock.monotonic(),
    };
    const now = this.#clock.monotonic();
    this.#dirty.delete(key);
    this.#working.set(key, now);
    this.#metrics?.queueDuration((now - since) / 1000);
    return { key, spanContexts, enqueuedAt };
  }

  /** Arms one timer, for the delayed key that is due first. */
  #arm(): void {
    const first = this.#heap.peek();
    if (first?.at === this.#timer?.at) return;
    this.#timer?.handle.cancel();
    this.#timer = first && { at: first.at, handle: this.#clock.after(first.at - this.#clock.monotonic(), () => this.#fire()) };
  }

  #fire(): void {
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    for (let first = this.#heap.peek(); first !== undefined && first.at <= now; first = this.#heap.peek()) {
      this.#heap.pop();
      this.#delayed.delete(first.key);
      this.#add(first.key, first.spanContexts);
    }
    this.#arm();
  }

  #checkDrained(): void {
    if (!this.#closed || this.#working.size > 0 || this.#dirty.size > 0) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }
}

function join<S extends SpanIdentity>(into: S[], spanContexts: readonly S[]): S[] {
  for (const spanContext of spanContexts) {
    if (into.length > maxLinks) break;
    if (!into.some(({ spanId, traceId }) => spanId === spanContext.spanId && traceId === spanContext.traceId)) into.push(spanContext);
  }
  return into;
}
