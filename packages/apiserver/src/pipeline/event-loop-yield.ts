import type { Clock } from '@oarlock/primitives/clock';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';

/** The number of waiting requests that resume per turn of the event loop. */
const resumedPerTurn = 16;
const resumedPerAwaitedTurn = 2;

/**
 * Lets the event loop handle sockets and timers between loopback requests. If storage and clients are in the same process, requests never wait for
 * I/O, so a client in a loop would starve the event loop. Requests from the network need not yield, because each has waited for a socket event.
 */
export class EventLoopYield {
  readonly #clock: Clock;
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns undefined if the request may continue at once, otherwise a promise that resolves when the request may continue. */
  yieldIfDue(): Promise<void> | undefined {
    const now = this.#clock.monotonic();
    if (this.#began === undefined) {
      this.#began = now;
      setImmediate(() => this.#scheduleTurn());
      return undefined;
    }
    if (this.#waiting.length === 0 && now - this.#began < eventLoop.budgetMs) return undefined;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #scheduleTurn(): void {
    if (this.#waiting.length === 0) {
      this.#began = undefined;
      return;
    }
    this.#began = this.#clock.monotonic();
    for (const go of this.#waiting.splice(0, eventLoop.hasWaiters ? resumedPerAwaitedTurn : resumedPerTurn)) go();
    setImmediate(() => this.#scheduleTurn());
  }
}
