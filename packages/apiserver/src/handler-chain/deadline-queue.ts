import type { Clock, Timer } from '@oarlock/primitives/clock';

/** An entry of a doubly linked list that is sorted by `at`. */
interface DeadlineEntry {
  readonly at: number;
  readonly fire: () => void;
  before: DeadlineEntry | undefined;
  after: DeadlineEntry | undefined;
  listed: boolean;
}

/**
 * A queue of deadlines with the same duration. Deadlines expire in the order in which they are set, so one timer for the first deadline is enough.
 * Most deadlines are cancelled before they expire, which does not touch the timer.
 */
export class DeadlineQueue {
  readonly #clock: Clock;
  readonly #ms: number;
  #first: DeadlineEntry | undefined;
  #last: DeadlineEntry | undefined;
  #armed = false;

  /** Creates a queue. `ms` is the duration of each deadline. */
  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /**
   * Sets a deadline: `fire` is called once at the deadline, unless the returned timer is cancelled before. `now` is in milliseconds of the monotonic
   * clock.
   */
  set(fire: () => void, now: number = this.#clock.monotonic()): Timer {
    const entry: DeadlineEntry = { at: now + this.#ms, fire, before: this.#last, after: undefined, listed: true };
    if (this.#last === undefined) this.#first = entry;
    else this.#last.after = entry;
    this.#last = entry;
    if (!this.#armed) this.#schedule(this.#ms);
    return { cancel: () => this.#remove(entry) };
  }

  #schedule(ms: number): void {
    this.#armed = true;
    this.#clock.after(ms, () => {
      this.#armed = false;
      this.#fireDue();
    });
  }

  #fireDue(): void {
    const now = this.#clock.monotonic();
    for (let entry = this.#first; entry !== undefined && entry.at <= now; entry = this.#first) {
      this.#remove(entry);
      entry.fire();
    }
    if (this.#first !== undefined && !this.#armed) this.#schedule(Math.max(1, this.#first.at - now));
  }

  #remove(entry: DeadlineEntry): void {
    if (!entry.listed) return;
    entry.listed = false;
    const { before, after } = entry;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    entry.before = entry.after = undefined;
  }
}
