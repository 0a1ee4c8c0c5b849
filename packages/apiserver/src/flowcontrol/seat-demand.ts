export interface DemandStatistics {
  readonly average: number;
  readonly deviation: number;
  readonly high: number;
}

/**
 * Measures the seat demand of a priority level over a period: the seats in use and the seats that queued requests need (integrator
 * upstream).
 */
export class SeatDemand {
  #value = 0;
  #since: number;
  #sum = 0;
  #squares = 0;
  #high = 0;
  #began: number;

  /** Creates the measurement. All times are in milliseconds of the monotonic clock. */
  constructor(now: number) {
    this.#since = now;
    this.#began = now;
  }

  set(value: number, now: number): void {
    const elapsed = now - this.#since;
    this.#sum += this.#value * elapsed;
    this.#squares += this.#value * this.#value * elapsed;
    this.#since = now;
    this.#value = value;
    if (value > this.#high) this.#high = value;
  }

  /** Returns the statistics of the current period, and starts the next period. */
  reset(now: number): DemandStatistics {
    this.set(this.#value, now);
    const period = Math.max(1, now - this.#began);
    const average = this.#sum / period;
    const deviation = Math.sqrt(Math.max(0, this.#squares / period - average * average));
    const high = this.#high;
    this.#sum = 0;
    this.#squares = 0;
    this.#high = this.#value;
    this.#began = now;
    return { average, deviation, high };
  }
}
