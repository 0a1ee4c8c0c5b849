import { LruMap } from '@oarlock/primitives/lru-map';
import type { Clock } from '@oarlock/primitives/clock';

const initialBackoffMs = 1_000;
const maxBackoffMs = 15 * 60_000;
const maxEntries = 20_000;

/**
 * Backoff for the replacement of failed daemon pods, per node: 1 s, 2 s, 4 s, ... up to 15 minutes. It restarts at 1 s after twice the
 * maximum without a failure.
 */
export class FailedPodsBackoff {
  readonly #clock: Clock;
  readonly #entries = new LruMap<string, { readonly at: number; readonly delayMs: number }>(maxEntries);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns milliseconds until a failed pod may be replaced. Returns 0 if it may be replaced now, and doubles the next delay. */
  next(key: string): number {
    const now = this.#clock.monotonic();
    const known = this.#entries.get(key);
    const fresh = known === undefined || now - known.at > 2 * maxBackoffMs;
    if (!fresh && now - known.at < known.delayMs) return known.delayMs - (now - known.at);
    this.#entries.set(key, { at: now, delayMs: fresh ? initialBackoffMs : Math.min(known.delayMs * 2, maxBackoffMs) });
    return 0;
  }
}
