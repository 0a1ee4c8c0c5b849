import type { RuntimeEvent } from '@oarlock/spi/runtime';

type Item = RuntimeEvent | 'resync';
/** More than this unread are forgotten, and the reader told to look at everything again. */
const most = 10_000;

/** Events to any number of readers, each at its own pace. */
export class EventQueues {
  readonly #readers = new Set<(item: Item) => void>();

  push(item: Item): void {
    for (const reader of this.#readers) reader(item);
  }

  /** From now on, until the signal aborts; `first` comes before anything else. */
  async *read(signal: AbortSignal, first: readonly Item[]): AsyncGenerator<Item> {
    let unread: Item[] = [...first];
    let wake = () => {};
    const take = (item: Item) => {
      if (unread.length >= most) unread = ['resync'];
      else unread.push(item);
      wake();
    };
    const abort = () => wake();
    this.#readers.add(take);
    signal.addEventListener('abort', abort);
    try {
      while (!signal.aborted) {
        const item = unread.shift();
        if (item !== undefined) yield item;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      this.#readers.delete(take);
      signal.removeEventListener('abort', abort);
    }
  }
}
