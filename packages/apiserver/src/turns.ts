import type { Clock } from '@oarlock/kernel/clock';
import { eventLoop } from '@oarlock/kernel/event-loop';

/** So many of those that waited go on in one turn, and so many while somebody outside waits. */
const perTurn = 16;
const perTurnAwaited = 2;

/**
 * Lets sockets and timers have their turn between requests. Where storage and clients are in this process nothing ever waits for I/O, and
 * clients in a loop would hold the event loop for as long as they like. Requests that came by a socket have waited for their turn already.
 */
export class Turns {
  readonly #clock: Clock;
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Nothing when the request may go on at once, else when it may. */
  pause(): Promise<void> | undefined {
    const now = this.#clock.monotonic();
    if (this.#began === undefined) {
      this.#began = now;
      setImmediate(() => this.#turn());
      return undefined;
    }
    if (this.#waiting.length === 0 && now - this.#began < eventLoop.budgetMs) return undefined;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  #turn(): void {
    if (this.#waiting.length === 0) {
      this.#began = undefined;
      return;
    }
    this.#began = this.#clock.monotonic();
    for (const go of this.#waiting.splice(0, eventLoop.awaited ? perTurnAwaited : perTurn)) go();
    setImmediate(() => this.#turn());
  }
}
