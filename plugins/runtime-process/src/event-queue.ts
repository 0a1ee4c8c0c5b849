import type { RuntimeEvent } from '@oarlock/spi/runtime';

type Item = RuntimeEvent | 'resync';
/** More than this unread are forgotten, and the reader told to look at everything again. */
const most = 10_000;

/** The events of a driver, to any number of readers, each at its own pace. */
export class EventQueue {
  readonly #readers = new Set<(item: Item) => void>();

  push(item: Item): void {
    for (const reader of this.#readers) reader(item);
  }

  /** From now on, until the signal aborts. The first item is `resync`. */
  async *read(signal: AbortSignal): AsyncIterable<Item> {
    let items: Item[] = ['resync'];
    let wake: (() => void) | undefined;
    const reader = (item: Item) => {
      if (items.length >= most) items = ['resync'];
      else items.push(item);
      wake?.();
    };
    const abort = () => wake?.();
    this.#readers.add(reader);
    signal.addEventListener('abort', abort, { once: true });
    try {
      while (!signal.aborted) {
        const batch = items;
        items = [];
        for (const item of batch) {
          yield item;
          if (signal.aborted) return;
        }
        if (items.length === 0 && !signal.aborted)
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      this.#readers.delete(reader);
      signal.removeEventListener('abort', abort);
    }
  }
}
