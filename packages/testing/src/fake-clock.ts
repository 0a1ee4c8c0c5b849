import { Heap, type HeapEntry } from '@oarlock/primitives/collections/heap';
import { sleepWith, type Clock, type Timer } from '@oarlock/primitives/clock';

interface Alarm extends HeapEntry {
  readonly at: number;
  readonly order: number;
  readonly fire: () => void;
}

/** Number of event loop turns without activity after which no work is considered in progress. */
const quietTurns = 4;
/** Longest real time that `settle` waits for requests to the file system, in milliseconds: a request may itself wait, as the opening of a FIFO does. */
const fileRequestMs = 10_000;
/** Number of turns in sequence for which `settle` waits for work that yields to the event loop: other code may always have an immediate pending. */
const maxYieldTurns = 10_000;
const turn = () =>
  new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
const turnOfMs = (ms: number) =>
  new Promise<void>((resolve) => {
    setTimeout(resolve, ms);
  });
/** The work of this process that is in progress: requests to the file system, and work that yielded to the event loop with setImmediate. */
function activeWork(): { readonly files: boolean; readonly yields: boolean } {
  const resources = process.getActiveResourcesInfo();
  return { files: resources.some((resource) => resource.startsWith('FSReq')), yields: resources.includes('Immediate') };
}

/**
 * A clock that only the test advances. Timers fire in order of time, then in the order in which they were set; the work that a timer starts settles
 * before the next timer fires. Settling covers promises, event loop turns and requests to the file system, but no other real I/O.
 */
export class FakeClock implements Clock {
  readonly #alarms = new Heap<Alarm>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  readonly #epoch: number;
  #elapsed = 0;
  #order = 0;
  #activity = 0;

  /** `start` is in milliseconds since the Unix epoch; the default is 2026-01-01T00:00:00Z. */
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

  /** Returns the number of timers that are set. */
  get pending(): number {
    return this.#alarms.size;
  }

  /** Reports that work is in progress, so that `settle` continues to wait. For fakes that use this clock. */
  touch(): void {
    this.#activity += 1;
  }

  /** Resolves when no work is in progress at the current time. */
  async settle(): Promise<void> {
    let deadline: number | undefined;
    let yieldTurns = 0;
    for (let quiet = 0, seen = this.#activity; quiet < quietTurns; quiet += 1) {
      await turn();
      const active = activeWork();
      if (active.yields && yieldTurns++ < maxYieldTurns) quiet = -1;
      if (active.files) {
        deadline ??= performance.now() + fileRequestMs;
        if (performance.now() < deadline) {
          await turnOfMs(1);
          quiet = -1;
        }
      }
      if (this.#activity !== seen) {
        quiet = -1;
        yieldTurns = 0;
        seen = this.#activity;
      }
    }
  }

  /** Advances the time by `ms`. Fires the timers that become due, including timers that are set in the meantime, and settles. */
  async advance(ms: number): Promise<void> {
    const until = this.#elapsed + ms;
    await this.settle();
    for (let next = this.#alarms.peek(); next !== undefined && next.at <= until; next = this.#alarms.peek()) await this.#fire(next);
    this.#elapsed = until;
  }

  /**
   * Advances the time from timer to timer until `condition` returns true; calls `condition` after each timer has settled.
   * @throws Error if `condition` does not return true within `within` milliseconds of simulated time, or if no timer is left
   */
  async runUntil(
    condition: () => boolean,
    { within = 600_000, what = 'the condition' }: { readonly within?: number; readonly what?: string } = {},
  ): Promise<void> {
    const until = this.#elapsed + within;
    await this.settle();
    while (!condition()) {
      const next = this.#alarms.peek();
      if (next === undefined) throw new Error(`${what}: the condition does not hold and no timer is set`);
      if (next.at > until) throw new Error(`${what}: the condition did not hold within ${within} ms of simulated time`);
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
