import { eventLoop } from './event-loop.ts';

/** The array of started tasks is truncated after this many. */
const maxStarted = 1024;
/** Microtask turns that a started task gets before the next one starts. */
const turnsPerTask = 8;

/**
 * Starts tasks in order, and yields between two tasks when the event loop was blocked for too long. A started task runs as far as
 * it can without I/O before the next one starts; a task that waits for I/O does not delay the others.
 */
export class TaskQueue {
  #items: (() => void)[] = [];
  #draining = false;

  push(item: () => void): void {
    this.#items.push(item);
    if (this.#draining) return;
    this.#draining = true;
    void this.#drain();
  }

  async #drain(): Promise<void> {
    // one microtask later, so that tasks pushed together start together
    await Promise.resolve();
    for (let at = 0; at < this.#items.length; at += 1) {
      this.#items[at]?.();
      if (at >= maxStarted) {
        this.#items = this.#items.slice(at + 1);
        at = -1;
      }
      for (let turn = 0; turn < turnsPerTask; turn += 1) await Promise.resolve();
      while (eventLoop.shouldYield) await eventLoop.yield();
    }
    this.#items = [];
    this.#draining = false;
  }
}
