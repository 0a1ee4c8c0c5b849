import { Heap, type HeapEntry } from '@oarlock/primitives/heap';
import { sleepWith, type Clock, type Timer } from '@oarlock/primitives/clock';

interface Alarm extends HeapEntry {
  readonly at: number;
  readonly order: number;
  readonly fire: () => void;
}

/** Turns of the event loop without any activity after which nothing is taken to be under way any more. */
const quietTurns = 4;
const turn = () =>
  new Promise<void>((resolve) => {
    setImmediate(resolve);
  });

/**
 * Time that stands still until a test moves it. Timers fire in order of time, then in the order they were set, and what each one starts
 * has settled before the next fires. Settled means: whatever runs on promises and turns of the event loop; real I/O is not waited for.
 */
export class FakeClock implements Clock {
  readonly #alarms = new Heap<Alarm>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  readonly #epoch: number;
  #elapsed = 0;
  #order = 0;
  #activity = 0;

  /** `start`: milliseconds since the Unix epoch; by default 2026-01-01T00:00:00Z. */
  constructor({ start = Date.UTC(2026, 0, 1) }: { readonly start?: number } = {}) {
    this.#epoch = start;
  }

  now(): number {
    return this.#epoch + this.#elapsed;
  }
  monotonic(): number {
    return this.#elapsed;
  }

  after(ms: number, fire: () => void): Timer {
    const alarm: Alarm = { at: this.#elapsed + Math.max(0, ms), order: this.#order++, fire, heapIndex: -1 };
    this.#alarms.push(alarm);
    this.#activity += 1;
    return {
      cancel: () => {
        this.#alarms.remove(alarm);
      },
    };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepWith(this, ms, signal);
  }

  /** Timers that are set. */
  get pending(): number {
    return this.#alarms.size;
  }

  /** Says that something is under way, so that `settle` goes on waiting. For fakes that work with this clock. */
  touch(): void {
    this.#activity += 1;
  }

  /** Resolves when nothing moves any more without time going on. */
  async settle(): Promise<void> {
    for (let quiet = 0, seen = this.#activity; quiet < quietTurns; quiet += 1) {
      await turn();
      if (this.#activity !== seen) {
        quiet = -1;
        seen = this.#activity;
      }
    }
  }

  /** Moves time on by `ms`, fires what falls due, timers set meanwhile included, and settles. */
  async advance(ms: number): Promise<void> {
    const until = this.#elapsed + ms;
    await this.settle();
    for (let next = this.#alarms.peek(); next !== undefined && next.at <= until; next = this.#alarms.peek()) await this.#fire(next);
    this.#elapsed = until;
  }

  /**
   * Moves time on from timer to timer until `condition` holds, looking after each one has settled.
   * @throws Error when it does not hold `within` milliseconds of simulated time, or nothing is left that could change it
   */
  async runUntil(
    condition: () => boolean,
    { within = 600_000, what = 'the condition' }: { readonly within?: number; readonly what?: string } = {},
  ): Promise<void> {
    const until = this.#elapsed + within;
    await this.settle();
    while (!condition()) {
      const next = this.#alarms.peek();
      if (next === undefined) throw new Error(`${what} does not hold and no timer is set that could change it`);
      if (next.at > until) throw new Error(`${what} did not come to hold within ${within} ms of simulated time`);
      await this.#fire(next);
    }
  }

  async #fire(alarm: Alarm): Promise<void> {
    this.#alarms.remove(alarm);
    this.#elapsed = Math.max(this.#elapsed, alarm.at);
    alarm.fire();
    await this.settle();
  }
}
