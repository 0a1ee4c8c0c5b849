/** A bucket of tokens that fills evenly. Times are milliseconds of a monotonic clock. */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** Full at first: `burst` at once, then `perSecond` on average. */
  constructor({ perSecond, burst, now }: { readonly perSecond: number; readonly burst: number; readonly now: number }) {
    this.#perMs = perSecond / 1000;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = now;
  }

  /** Takes a token if there is one. */
  tryTake(now: number): boolean {
    this.#fill(now);
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Takes a token, of the future if need be, and says in how many milliseconds it is there. */
  reserve(now: number): number {
    this.#fill(now);
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs;
  }

  #fill(now: number): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, now - this.#at) * this.#perMs);
    this.#at = Math.max(this.#at, now);
  }
}

/** How long a key waits after each of its failures in a row: doubling. client-go's ItemExponentialFailureRateLimiter. */
export class FailureDelays<K> {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #failures = new Map<K, number>();

  constructor({ firstMs, longestMs }: { readonly firstMs: number; readonly longestMs: number }) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  failures(key: K): number {
    return this.#failures.get(key) ?? 0;
  }
  forget(key: K): void {
    this.#failures.delete(key);
  }

  /** Counts a failure and says how many milliseconds to wait after it. */
  next(key: K): number {
    const failures = this.failures(key);
    this.#failures.set(key, failures + 1);
    return Math.min(this.#longestMs, this.#firstMs * 2 ** Math.min(failures, 60));
  }
}
