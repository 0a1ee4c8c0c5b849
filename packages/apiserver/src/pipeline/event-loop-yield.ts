import type { Clock } from '@oarlock/primitives/clock';
import { eventLoop } from '@oarlock/primitives/event-loop';

/** The number of waiting requests that resume per turn, and while I/O callbacks are pending. */
const resumedPerTurn = 16;
const resumedPerAwaitedTurn = 2;

/**
 * Yields the event loop to sockets and timers between loopback requests. With storage and clients in one process no request ever waits for
 * I/O, so a client in a loop would starve the event loop. Requests from the network need no yield: each waited for its socket event.
 */
export class EventLoopYield {
  readonly #clock: Clock;
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns undefined if the request may continue at once, otherwise a promise that resolves when it may. */
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
