import type { ObjectKey } from '@oarlock/api/object';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Registry } from 'prom-client';
import { Fifo } from './fifo.ts';
import { Heap, type HeapEntry } from './heap.ts';
import { FailureDelays, TokenBucket } from './rate-limiter.ts';
import { workqueueMetrics, type WorkqueueMetrics } from './workqueue-metrics.ts';

export interface WorkqueueOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly metrics?: Registry;
  /** The wait after the first failure of a key, doubled with each further one up to the longest. Default 5 ms to 1000 s. */
  readonly failureDelay?: { readonly firstMs: number; readonly longestMs: number };
  /** Bounds the retries of all keys together; none by default. client-go's default is 10 a second with bursts of 100. */
  readonly overall?: { readonly perSecond: number; readonly burst: number };
}

/** A key to work on, with what woke it. */
export interface Work<K = ObjectKey> {
  readonly key: K;
  /** The first cause and at most 32 further ones. */
  readonly causes: readonly Cause[];
  /** When the key was first queued for this piece of work, in milliseconds since the epoch. */
  readonly enqueuedAt: number;
}

interface Pending {
  causes: Cause[];
  readonly enqueuedAt: number;
  readonly since: number;
}
interface Delayed<K> extends HeapEntry {
  readonly key: K;
  at: number;
  readonly causes: Cause[];
  readonly order: number;
}

/** How many causes beside the first a key keeps. */
export const keptLinks = 32;

/**
 * Keys waiting for work, as client-go's workqueue: a key waits once however often it is added, is worked on by one worker at a time, and
 * comes again when it was added while it was worked on. Whoever takes a key with `next` hands it back with `done`.
 */
export class Workqueue<K = ObjectKey> {
  readonly #clock: Clock;
  readonly #metrics: WorkqueueMetrics | undefined;
  readonly #delays: FailureDelays<K>;
  readonly #overall: TokenBucket | undefined;
  /** Keys that wait to be worked on, those in the queue and those that are being worked on already. */
  readonly #dirty = new Map<K, Pending>();
  readonly #working = new Map<K, number>();
  readonly #queue = new Fifo<K>();
  readonly #delayed = new Map<K, Delayed<K>>();
  readonly #heap = new Heap<Delayed<K>>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  readonly #takers = new Fifo<(work: Work<K> | undefined) => void>();
  #order = 0;
  #timer: { readonly at: number; readonly handle: Timer } | undefined;
  #closed = false;
  #drained: (() => void)[] = [];

  constructor({ name, clock, metrics, failureDelay = { firstMs: 5, longestMs: 1_000_000 }, overall }: WorkqueueOptions) {
    this.#clock = clock;
    this.#delays = new FailureDelays(failureDelay);
    this.#overall = overall && new TokenBucket({ ...overall, now: clock.monotonic() });
    this.#metrics =
      metrics && workqueueMetrics(metrics, name, () => ({ depth: this.length, startedAt: this.#working.values(), now: clock.monotonic() }));
  }

  /** Keys that wait and are not being worked on. Delayed ones do not count. */
  get length(): number {
    return this.#queue.size;
  }
  get closed(): boolean {
    return this.#closed;
  }

  add(key: K, cause?: Cause): void {
    this.#add(key, cause === undefined ? none : [cause]);
  }

  /** Adds the key after `ms`; if it is delayed already, at the earlier of both times. */
  addAfter(key: K, ms: number, ...causes: readonly Cause[]): void {
    if (this.#closed) return;
    if (ms <= 0) {
      this.#add(key, causes);
      return;
    }
    const at = this.#clock.monotonic() + ms;
    const known = this.#delayed.get(key);
    if (known !== undefined) {
      join(known.causes, causes);
      if (at < known.at) {
        known.at = at;
        this.#heap.moved(known);
      }
    } else {
      const entry: Delayed<K> = { key, at, causes: join([], causes), order: this.#order++, heapIndex: -1 };
      this.#delayed.set(key, entry);
      this.#heap.push(entry);
    }
    this.#arm();
  }

  /** Adds the key again after a failure, the later the more often it has failed in a row. Returns the delay in milliseconds. */
  addRateLimited(key: K, ...causes: readonly Cause[]): number {
    const delay = Math.max(this.#delays.next(key), this.#overall?.reserve(this.#clock.monotonic()) ?? 0);
    if (!this.#closed) this.#metrics?.retried();
    this.addAfter(key, delay, ...causes);
    return delay;
  }

  /** The key has succeeded: its next failure is the first again. */
  forget(key: K): void {
    this.#delays.forget(key);
  }
  /** Failures in a row since the key was last forgotten. */
  failures(key: K): number {
    return this.#delays.failures(key);
  }

  /** Takes a delayed add back, because whoever wanted it is about to look anyway. */
  cancelDelayed(key: K): void {
    const entry = this.#delayed.get(key);
    if (entry === undefined) return;
    this.#delayed.delete(key);
    this.#heap.remove(entry);
    this.#arm();
  }

  /** The next key, as soon as there is one; undefined when the queue is shut down and empty. */
  next(): Promise<Work<K> | undefined> {
    const key = this.#queue.shift();
    if (key !== undefined) return Promise.resolve(this.#take(key));
    if (this.#closed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#takers.push(resolve);
    });
  }

  done(key: K): void {
    const began = this.#working.get(key);
    if (began === undefined) return;
    this.#working.delete(key);
    this.#metrics?.worked((this.#clock.monotonic() - began) / 1000);
    if (this.#dirty.has(key)) this.#enqueue(key);
    else this.#checkDrained();
  }

  /** No more keys are taken in. What waits is still handed out, then workers get undefined. */
  shutDown(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.handle.cancel();
    this.#timer = undefined;
    this.#delayed.clear();
    for (let top = this.#heap.pop(); top !== undefined; top = this.#heap.pop());
    for (let taker = this.#takers.shift(); taker !== undefined; taker = this.#takers.shift()) taker(undefined);
    this.#checkDrained();
  }

  /** Shuts down, and resolves when everything taken in has been worked on. Somebody has to go on taking keys. */
  shutDownWithDrain(): Promise<void> {
    const drained = new Promise<void>((resolve) => {
      this.#drained.push(resolve);
    });
    this.shutDown();
    this.#checkDrained();
    return drained;
  }

  #add(key: K, causes: readonly Cause[]): void {
    if (this.#closed) return;
    const known = this.#dirty.get(key);
    if (known !== undefined) {
      join(known.causes, causes);
      return;
    }
    this.#metrics?.added();
    this.#dirty.set(key, { causes: join([], causes), enqueuedAt: this.#clock.now(), since: this.#clock.monotonic() });
    if (!this.#working.has(key)) this.#enqueue(key);
  }

  #enqueue(key: K): void {
    // Whoever waits for keys waits because there are none.
    const taker = this.#takers.shift();
    if (taker === undefined) this.#queue.push(key);
    else taker(this.#take(key));
  }

  #take(key: K): Work<K> {
    const { causes, enqueuedAt, since } = this.#dirty.get(key) ?? {
      causes: [],
      enqueuedAt: this.#clock.now(),
      since: this.#clock.monotonic(),
    };
    const now = this.#clock.monotonic();
    this.#dirty.delete(key);
    this.#working.set(key, now);
    this.#metrics?.waited((now - since) / 1000);
    return { key, causes, enqueuedAt };
  }

  /** One timer, for the delayed key that is due first. */
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
      this.#add(first.key, first.causes);
    }
    this.#arm();
  }

  #checkDrained(): void {
    if (!this.#closed || this.#working.size > 0 || this.#dirty.size > 0) return;
    for (const resolve of this.#drained.splice(0)) resolve();
  }
}

const none: readonly Cause[] = [];

function join(into: Cause[], causes: readonly Cause[]): Cause[] {
  for (const cause of causes) {
    if (into.length > keptLinks) break;
    if (!into.some(({ spanId, traceId }) => spanId === cause.spanId && traceId === cause.traceId)) into.push(cause);
  }
  return into;
}
