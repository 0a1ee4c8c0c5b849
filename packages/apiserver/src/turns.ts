import type { Clock } from '@oarlock/kernel/clock';

/** Milliseconds of requests in a row after which the event loop has its turn. */
const slice = 5;
/** So many of those that waited go on in one turn. */
const perTurn = 16;

/**
 * Lets sockets and timers have their turn between requests. Where storage and clients are in this process nothing ever waits for I/O, and
 * clients in a loop would hold the event loop for as long as they like.
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
    if (this.#waiting.length === 0 && now - this.#began < slice) return undefined;
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
    for (const go of this.#waiting.splice(0, perTurn)) go();
    setImmediate(() => this.#turn());
  }
}
