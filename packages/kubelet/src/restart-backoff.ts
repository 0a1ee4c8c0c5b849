/** First delay and longest delay of restarts and of image pulls, in milliseconds. */
export const firstBackoffMs = 10_000;
export const longestBackoffMs = 300_000;

interface Entry {
  delay: number;
  updated: number;
}

/** A clock that is set back must not make anything wait longer than its delay. */
const within = (delay: number, left: number) => Math.min(delay, Math.max(0, left));

/**
 * Delays that double from 10 s to 300 s for each key, as the kubelet's back-off of restarts and pulls does. What has not failed for twice
 * the longest delay begins anew.
 */
export class RestartBackoff {
  readonly #entries = new Map<string, Entry>();
  readonly #first: number;
  readonly #longest: number;

  constructor(first = firstBackoffMs, longest = longestBackoffMs) {
    this.#first = first;
    this.#longest = longest;
  }

  /** The delay that holds for the key now; 0 when it never failed. */
  delay(key: string): number {
    return this.#entries.get(key)?.delay ?? 0;
  }

  /** Milliseconds to wait from `now`, when the thing last ended at `since`; 0: go on. */
  remaining(key: string, since: number, now: number): number {
    const entry = this.#entries.get(key);
    if (entry === undefined || since - entry.updated > 2 * this.#longest) return 0;
    return within(entry.delay, since + entry.delay - now);
  }

  /** Milliseconds to wait from `now`, counted from the last try. */
  pending(key: string, now: number): number {
    const entry = this.#entries.get(key);
    return entry === undefined ? 0 : within(entry.delay, entry.updated + entry.delay - now);
  }

  /** Counts one more try of something that last ended at `since`. */
  next(key: string, since: number, now: number): void {
    const entry = this.#entries.get(key);
    if (entry === undefined || since - entry.updated > 2 * this.#longest) this.#entries.set(key, { delay: this.#first, updated: now });
    else {
      entry.delay = Math.min(entry.delay * 2, this.#longest);
      entry.updated = now;
    }
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }
}

/** `1m20s`: how a delay is written in messages. */
export function formatDelay(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
