import { LruMap } from '@oarlock/client/lru-map';
import type { Clock } from '@oarlock/kernel/clock';

const firstMs = 1_000;
const longestMs = 15 * 60_000;
const remembered = 20_000;

/** Failed daemon pods are replaced after 1 s, 2 s, 4 s, ... up to 15 minutes; one that held out twice as long as the longest starts anew. */
export class FailedPodDelays {
  readonly #clock: Clock;
  readonly #entries = new LruMap<string, { readonly at: number; readonly delayMs: number }>(remembered);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds that a replacement still has to wait. When there is none, the next failure is counted. */
  wait(key: string): number {
    const now = this.#clock.monotonic();
    const known = this.#entries.get(key);
    const fresh = known === undefined || now - known.at > 2 * longestMs;
    if (!fresh && now - known.at < known.delayMs) return known.delayMs - (now - known.at);
    this.#entries.set(key, { at: now, delayMs: fresh ? firstMs : Math.min(known.delayMs * 2, longestMs) });
    return 0;
  }
}
