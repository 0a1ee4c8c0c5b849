import { Fifo } from './fifo.ts';

export interface BoundedEventQueueOptions<T> {
  /** Maximum number of unread items. */
  readonly limit: number;
  /** The item that replaces all unread items when there are more, such as `resync`. Pushing it has the same effect. */
  readonly overflow: T;
}

/**
 * A queue of the items that one reader has not read yet. If the reader is too slow, the overflow item replaces all unread items, and the reader must
 * list the current state.
 */
export class BoundedEventQueue<T extends NonNullable<unknown>> implements AsyncIterable<T> {
  readonly #options: BoundedEventQueueOptions<T>;
  readonly #items = new Fifo<T>();
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;

  constructor(options: BoundedEventQueueOptions<T>) {
    this.#options = options;
  }

  push(item: T): void {
    if (this.#ended) return;
    const { limit, overflow } = this.#options;
    if (item === overflow || this.#items.size >= limit) {
      this.#items.clear();
      this.#items.push(overflow);
    } else {
      this.#items.push(item);
    }
    this.#wake?.();
  }

  /** Ends the queue. The reader still receives the unread items, then `failure` as an error if given. */
  end(failure?: Error): void {
    this.#ended = true;
    this.#failure = failure;
    this.#wake?.();
  }

  /** Yields items until the queue ends. If the signal aborts, ends without the unread items. There must be only one iterator. */
  async *read(signal?: AbortSignal): AsyncGenerator<T, void, void> {
    for (;;) {
      for (let item = this.#items.shift(); item !== undefined; item = this.#items.shift()) {
        if (signal?.aborted) return;
        yield item;
      }
      if (this.#failure) throw this.#failure;
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
  [Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    return this.read();
  }
}

/** Distributes items to any number of readers, each with a queue of its own. */
export class BoundedEventBroadcaster<T extends NonNullable<unknown>> {
  readonly #options: BoundedEventQueueOptions<T>;
  readonly #queues = new Set<BoundedEventQueue<T>>();
  #ended: { readonly failure: Error | undefined } | undefined;

  constructor(options: BoundedEventQueueOptions<T>) {
    this.#options = options;
  }

  push(item: T): void {
    for (const queue of this.#queues) queue.push(item);
  }

  /** Ends all readers, now and in the future. */
  end(failure?: Error): void {
    this.#ended = { failure };
    for (const queue of this.#queues) queue.end(failure);
  }

  /** Yields `first`, then the items from the first `next` call on, until the signal aborts or `end` is called. */
  async *read(signal: AbortSignal, first: readonly T[] = []): AsyncGenerator<T, void, void> {
    const queue = new BoundedEventQueue<T>(this.#options);
    for (const item of first) queue.push(item);
    if (this.#ended) queue.end(this.#ended.failure);
    const end = () => queue.end();
    this.#queues.add(queue);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      yield* queue.read(signal);
    } finally {
      signal.removeEventListener('abort', end);
      this.#queues.delete(queue);
    }
  }
}
