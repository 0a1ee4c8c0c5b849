import { eventLoop } from '@oarlock/kernel/event-loop';

/**
 * Starts pieces of work in the order they came, only as many at a time as do not hold the event loop: what one starts runs on before the
 * next is begun. A piece that waits for something does not keep the others waiting.
 */
export class TurnQueue {
  #items: (() => void)[] = [];
  #draining = false;

  push(item: () => void): void {
    this.#items.push(item);
    if (this.#draining) return;
    this.#draining = true;
    void this.#drain();
  }

  async #drain(): Promise<void> {
    // what is pushed together is begun together
    await Promise.resolve();
    for (let at = 0; at < this.#items.length; at += 1) {
      this.#items[at]?.();
      if (at >= 1024) {
        this.#items = this.#items.slice(at + 1);
        at = -1;
      }
      // a turn of microtasks, in which the piece comes as far as it can without waiting for the world
      for (let step = 0; step < 8; step += 1) await Promise.resolve();
      while (eventLoop.held) await eventLoop.turn();
    }
    this.#items = [];
    this.#draining = false;
  }
}
