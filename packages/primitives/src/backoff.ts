export interface BackoffOptions {
  /** Delay after the first failure, and the upper bound, in milliseconds. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** Maximum fraction of the delay that is added at random; 1 at most doubles the delay. */
  readonly jitter: number;
  readonly random: () => number;
}

/** Delays that double with each consecutive failure, with jitter (wait.Backoff upstream). */
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

  /** Counts a failure and returns the delay after it, in milliseconds. */
  next(): number {
    const { firstMs, longestMs, jitter, random } = this.#options;
    // 2 ** 50 exceeds any bound; more failures must not overflow to infinity
    const delay = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failures, 50));
    this.#failures += 1;
    return delay * (1 + jitter * random());
  }
}
