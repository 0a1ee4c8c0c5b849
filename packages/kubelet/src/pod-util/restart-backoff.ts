/** The initial delay of the backoff of restarts and image pulls. Milliseconds. */
export const initialBackoffMs = 10_000;
export const maxBackoffMs = 300_000;

interface Entry {
  delay: number;
  updated: number;
}

/** Limits the remaining time to the delay, because the wall clock may be set back. */
const within = (delay: number, left: number) => Math.min(delay, Math.max(0, left));

/**
 * An exponential backoff per key for container restarts and image pulls: 10 s at first, doubling up to 300 s. A key that has not failed for twice
 * the maximum delay starts over.
 */
export class RestartBackoff {
  readonly #entries = new Map<string, Entry>();
  readonly #first: number;
  readonly #longest: number;

  constructor(first = initialBackoffMs, longest = maxBackoffMs) {
    this.#first = first;
    this.#longest = longest;
  }

  /** Returns the current delay of the key in milliseconds; 0 if the key never failed. */
  delay(key: string): number {
    return this.#entries.get(key)?.delay ?? 0;
  }

  /** Returns the milliseconds that remain at `now` of the backoff after a failure at `since`; 0 if the backoff has expired. */
  remaining(key: string, since: number, now: number): number {
    const entry = this.#entries.get(key);
    if (entry === undefined || since - entry.updated > 2 * this.#longest) return 0;
    return within(entry.delay, since + entry.delay - now);
  }

  /** Returns the milliseconds that remain at `now` of the backoff after the key's last try. */
  remainingSinceLastTry(key: string, now: number): number {
    const entry = this.#entries.get(key);
    return entry === undefined ? 0 : within(entry.delay, entry.updated + entry.delay - now);
  }

  /** Counts another try of the key after a failure at `since`, and raises the delay. */
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

/** Formats a delay for messages, for example `1m20s`. */
export function formatDelay(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
