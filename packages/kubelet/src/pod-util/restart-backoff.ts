/** Back-off of restarts and image pulls. Milliseconds. */
export const initialBackoffMs = 10_000;
export const maxBackoffMs = 300_000;

interface Entry {
  delay: number;
  updated: number;
}

/** Limits the remaining time to the delay: the wall clock may be set back. */
const within = (delay: number, left: number) => Math.min(delay, Math.max(0, left));

/**
 * Exponential back-off by key, as the kubelet's for restarts and pulls: from 10 s, doubling to 300 s. A key without a failure for twice the
 * longest delay starts over.
 */
export class RestartBackoff {
  readonly #entries = new Map<string, Entry>();
  readonly #first: number;
  readonly #longest: number;

  constructor(first = initialBackoffMs, longest = maxBackoffMs) {
    this.#first = first;
    this.#longest = longest;
  }

  /** Returns the current delay of the key; 0 if it never failed. */
  delay(key: string): number {
    return this.#entries.get(key)?.delay ?? 0;
  }

  /** Returns the remaining milliseconds at `now` after a failure at `since`; 0: the back-off has expired. */
  remaining(key: string, since: number, now: number): number {
    const entry = this.#entries.get(key);
    if (entry === undefined || since - entry.updated > 2 * this.#longest) return 0;
    return within(entry.delay, since + entry.delay - now);
  }

  /** Returns the remaining milliseconds at `now`, counted from the last try. */
  remainingSinceLastTry(key: string, now: number): number {
    const entry = this.#entries.get(key);
    return entry === undefined ? 0 : within(entry.delay, entry.updated + entry.delay - now);
  }

  /** Counts another try after a failure at `since`. */
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

/** Formats a delay for messages: `1m20s`. */
export function formatDelay(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
