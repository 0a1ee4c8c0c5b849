import type { RuntimeEvent } from '@oarlock/spi/runtime';

type Item = RuntimeEvent | 'resync';

/** What one consumer has not taken yet. When it is too much, all of it becomes one `resync`. */
export class EventQueue implements AsyncIterable<Item> {
  readonly #limit: number;
  readonly #items: Item[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(item: Item): void {
    if (this.#ended) return;
    if (item === 'resync' || this.#items.length >= this.#limit) {
      this.#items.length = 0;
      this.#items.push('resync');
    } else {
      this.#items.push(item);
    }
    this.#wake?.();
  }

  end(failure?: Error): void {
    this.#ended = true;
    this.#failure = failure;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, void> {
    for (;;) {
      for (let item = this.#items.shift(); item !== undefined; item = this.#items.shift()) yield item;
      if (this.#failure) throw this.#failure;
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
