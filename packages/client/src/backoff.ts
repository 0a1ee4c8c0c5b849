export interface BackoffOptions {
  /** Milliseconds. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** The part of the delay that is added at most at random; 1 doubles it. */
  readonly jitter: number;
  readonly random: () => number;
}

/** Delays that double with each failure in a row, with jitter. */
export class Backoff {
  readonly #options: BackoffOptions;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  get failures(): number {
    return this.#failures;
  }
  reset(): void {
    this.#failures = 0;
  }

  /** Counts a failure and says how many milliseconds to wait after it. */
  next(): number {
    const { firstMs, longestMs, jitter, random } = this.#options;
    const delay = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failures, 50));
    this.#failures += 1;
    return delay * (1 + jitter * random());
  }
}
