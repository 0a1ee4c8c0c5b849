import type { RuntimeEvent } from '@oarlock/spi/runtime';

/** Events kept for a listener that does not read; beyond this it is told to look at everything again. */
const limit = 100_000;

interface Listener {
  queue: (RuntimeEvent | 'resync')[];
  wake: (() => void) | undefined;
}

/** Hands every event to every open stream. */
export class EventHub {
  readonly #listeners = new Set<Listener>();

  publish(event: RuntimeEvent): void {
    for (const listener of this.#listeners) {
      if (listener.queue.length >= limit) listener.queue = ['resync'];
      else listener.queue.push(event);
      listener.wake?.();
    }
  }

  async *stream(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    const listener: Listener = { queue: ['resync'], wake: undefined };
    const wake = () => listener.wake?.();
    this.#listeners.add(listener);
    signal.addEventListener('abort', wake);
    try {
      while (!signal.aborted) {
        const { queue } = listener;
        listener.queue = [];
        yield* queue;
        if (listener.queue.length > 0 || signal.aborted) continue;
        await new Promise<void>((resolve) => {
          listener.wake = resolve;
        });
        listener.wake = undefined;
      }
    } finally {
      signal.removeEventListener('abort', wake);
      this.#listeners.delete(listener);
    }
  }
}
