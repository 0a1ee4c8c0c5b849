import type { Clock, Timer } from '@oarlock/primitives/clock';

/**
 * Runs the timers of many nodes on shared ticks, so that timers that expire in the same tick fire together. Times are rounded to the nearest
 * tick, so that periodic timers that fire together stay together.
 */
export class CoalescedTimers {
  readonly #clock: Clock;
  readonly #tickMs: number;
  /** The callbacks to call, keyed by tick number. */
  readonly #due = new Map<number, Set<() => void>>();

  constructor(clock: Clock, tickMs: number) {
    this.#clock = clock;
    this.#tickMs = tickMs;
  }

  /** Calls `fire` once, at the tick nearest to `ms` milliseconds from now, but not at the current one. */
  after(ms: number, fire: () => void): Timer {
    const now = this.#clock.monotonic();
    const tick = Math.max(Math.floor(now / this.#tickMs) + 1, Math.round((now + ms) / this.#tickMs));
    const each = () => fire(); // one function may be registered twice
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
