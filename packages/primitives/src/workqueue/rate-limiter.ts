/** A token bucket that refills continuously (flowcontrol.RateLimiter upstream). Times are milliseconds of a monotonic clock. */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** Starts full: `burst` tokens at once, then `perSecond` on average. */
  constructor({ perSecond, burst, now }: { readonly perSecond: number; readonly burst: number; readonly now: number }) {
    this.#perMs = perSecond / 1000;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = now;
  }

  /** Takes a token if one is available. */
  tryTake(now: number): boolean {
    this.#fill(now);
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Takes a token, if necessary a future one, and returns the number of milliseconds until it is available. */
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

/** Delays that double with each consecutive failure of a key (client-go's rate limiter of the same name). */
export class ItemExponentialFailureRateLimiter<K> {
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

  /** Counts a failure and returns the delay after it, in milliseconds. */
  when(key: K): number {
    const failures = this.failures(key);
    this.#failures.set(key, failures + 1);
    return Math.min(this.#longestMs, this.#firstMs * 2 ** Math.min(failures, 60));
  }
}
