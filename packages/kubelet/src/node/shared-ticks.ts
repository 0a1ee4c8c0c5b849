import type { Clock, Timer } from '@oarlock/kernel/clock';

/**
 * Timers of many nodes on one: what is due within the same tick is done in one turn. A time is rounded to the nearest tick, so that what is done
 * every so often stays with those it was done together with.
 */
export class SharedTicks {
  readonly #clock: Clock;
  readonly #tickMs: number;
  /** By number of the tick. */
  readonly #due = new Map<number, Set<() => void>>();

  constructor(clock: Clock, tickMs: number) {
    this.#clock = clock;
    this.#tickMs = tickMs;
  }

  /** Calls `fire` once, at the tick nearest to `ms` milliseconds from now, never at this one. */
  after(ms: number, fire: () => void): Timer {
    const now = this.#clock.monotonic();
    const tick = Math.max(Math.floor(now / this.#tickMs) + 1, Math.round((now + ms) / this.#tickMs));
    const each = () => fire(); // the same function may be waiting twice
    const waiting = this.#due.get(tick);
    if (waiting !== undefined) waiting.add(each);
    else {
      const all = new Set([each]);
      this.#due.set(tick, all);
      this.#clock.after(tick * this.#tickMs - now, () => {
        this.#due.delete(tick);
        for (const one of all) one();
      });
    }
    return {
      cancel: () => {
        this.#due.get(tick)?.delete(each);
      },
    };
  }
}
