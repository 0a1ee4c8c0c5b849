import { StorageError, type ChangeBatch } from '@oarlock/spi/storage';

export interface QueueLimits {
  /** Total size of the values in queued batches, in bytes. */
  readonly bytes: number;
  /** Number of queued changes. */
  readonly changes: number;
}

interface Waiter {
  resolve(result: IteratorResult<ChangeBatch, undefined>): void;
  reject(error: unknown): void;
}
/** A queued batch and its size for the limits; batches of the backlog have no size. */
interface QueuedBatch {
  readonly batch: ChangeBatch;
  readonly bytes: number;
  readonly changes: number;
}

/** The queue of one watch. If the queue exceeds its limits, the watch fails with `Lagged`. */
export class WatchQueue implements AsyncIterableIterator<ChangeBatch, undefined> {
  readonly #limits: QueueLimits;
  readonly #signal: AbortSignal;
  readonly #closed: (queue: WatchQueue) => void;
  #items: QueuedBatch[] = [];
  #head = 0;
  #bytes = 0;
  #changes = 0;
  #waiters: Waiter[] = [];
  #ended = false;
  #failure: unknown;

  /** Calls `closed` once, when the watch has ended. */
  constructor(limits: QueueLimits, signal: AbortSignal, closed: (queue: WatchQueue) => void) {
    this.#limits = limits;
    this.#signal = signal;
    this.#closed = closed;
    if (signal.aborted) this.#end();
    else signal.addEventListener('abort', this.#abort);
  }

  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Adds a batch whose values have `bytes` bytes. A batch of the backlog does not count towards the limits, because the size of the history
   * already limits it.
   */
  push(batch: ChangeBatch, bytes: number, { backlog = false }: { readonly backlog?: boolean } = {}): void {
    if (this.#ended) return;
    const waiter = this.#waiters.shift();
    if (waiter) {
      waiter.resolve({ done: false, value: batch });
      return;
    }
    if (batch.changes.length === 0 && this.#items.length > this.#head && this.#items.at(-1)?.batch.changes.length === 0) {
      this.#items[this.#items.length - 1] = { batch, bytes: 0, changes: 0 };
      return;
    }
    const item = backlog ? { batch, bytes: 0, changes: 0 } : { batch, bytes, changes: batch.changes.length };
    this.#items.push(item);
    this.#bytes += item.bytes;
    this.#changes += item.changes;
    // a reader that had read everything is not slow, however large this batch is
    if (this.#items.length - this.#head > 1 && (this.#bytes > this.#limits.bytes || this.#changes > this.#limits.changes)) {
      this.fail(new StorageError('Lagged', `the reader is too slow: ${this.#changes} changes of ${this.#bytes} bytes are queued`));
    }
  }

  /** Ends the watch: drops queued batches, and rejects the next read with `error`. */
  fail(error: unknown): void {
    if (this.#ended) return;
    const waiter = this.#waiters.shift();
    if (waiter) waiter.reject(error);
    else this.#failure = error;
    this.#end();
  }

  async next(): Promise<IteratorResult<ChangeBatch, undefined>> {
    const item = this.#shift();
    if (item) return { done: false, value: item.batch };
    if (this.#failure !== undefined && !this.#signal.aborted) {
      const error = this.#failure;
      this.#failure = undefined;
      throw error;
    }
    if (this.#ended) return { done: true, value: undefined };
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
    });
  }

  async return(): Promise<IteratorResult<ChangeBatch, undefined>> {
    this.#failure = undefined;
    this.#end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #shift(): QueuedBatch | undefined {
    const item = this.#items[this.#head];
    if (!item) return undefined;
    this.#bytes -= item.bytes;
    this.#changes -= item.changes;
    this.#head += 1;
    // removes read items in blocks, because each splice moves the rest
    if (this.#head === this.#items.length || (this.#head >= 256 && this.#head * 2 >= this.#items.length)) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }

  readonly #abort = () => {
    this.#end();
  };

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#items = [];
    this.#head = 0;
    this.#signal.removeEventListener('abort', this.#abort);
    for (const { resolve } of this.#waiters.splice(0)) resolve({ done: true, value: undefined });
    this.#closed(this);
  }
}
