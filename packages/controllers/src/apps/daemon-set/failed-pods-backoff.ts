import { LruMap } from '@oarlock/primitives/collections/lru-map';
import type { Clock } from '@oarlock/primitives/clock';

const initialBackoffMs = 1_000;
const maxBackoffMs = 15 * 60_000;
const maxEntries = 20_000;

/**
 * The backoff of failed daemon pods, per DaemonSet and node: 1 s, 2 s, 4 s, ... up to 15 minutes. The backoff restarts at 1 s after 30 minutes
 * without a failure.
 */
export class FailedPodsBackoff {
  readonly #clock: Clock;
  readonly #entries = new LruMap<string, { readonly at: number; readonly delayMs: number }>(maxEntries);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the milliseconds until a failed pod may be replaced. If the result is 0, the pod may be replaced now and the next delay is doubled. */
  next(key: string): number {
    const now = this.#clock.monotonic();
    const known = this.#entries.get(key);
    const fresh = known === undefined || now - known.at > 2 * maxBackoffMs;
    if (!fresh && now - known.at < known.delayMs) return known.delayMs - (now - known.at);
    this.#entries.set(key, { at: now, delayMs: fresh ? initialBackoffMs : Math.min(known.delayMs * 2, maxBackoffMs) });
    return 0;
  }
}
