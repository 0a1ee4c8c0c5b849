import { setTimeout as delay } from 'node:timers/promises';

/**
 * Milliseconds after which something that has not come is a failure. Far more than anything takes: machines are slow and busy, and
 * nobody waits that long when all is well.
 */
export const patienceMs = 180_000;

export interface UntilOptions {
  /** Default `patienceMs`. */
  readonly timeoutMs?: number;
  /** Between two looks. Things that announce themselves are waited for with a watch instead. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Looks again until `look` returns something other than undefined or false. A look that throws counts as not yet.
 * @throws Error with what was last seen, after the deadline
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  options: UntilOptions = {},
): Promise<T> {
  const { timeoutMs = patienceMs, everyMs = 50, signal } = options;
  const deadline = performance.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      last = error;
    }
    signal?.throwIfAborted();
    if (performance.now() > deadline)
      throw new Error(`${what}: not within ${timeoutMs} ms${last === undefined ? '' : `; the last look said: ${String(last)}`}`, {
        cause: last,
      });
    await delay(everyMs, undefined, signal && { signal });
  }
}

/** The same, where the last value seen belongs into the message. */
export async function untilValue<T>(
  what: string,
  see: () => T | Promise<T>,
  wanted: (value: T) => boolean,
  options: UntilOptions = {},
): Promise<T> {
  let seen: T | undefined;
  try {
    return (
      await until(
        what,
        async () => {
          const value = await see();
          seen = value;
          return wanted(value) ? { value } : undefined;
        },
        options,
      )
    ).value;
  } catch (error) {
    throw new Error(`${(error as Error).message}; last seen: ${JSON.stringify(seen)?.slice(0, 2000)}`, { cause: error });
  }
}

/** Rejects when `work` takes longer; the work itself is not stopped. */
export async function within<T>(what: string, work: Promise<T>, timeoutMs = patienceMs): Promise<T> {
  const stop = new AbortController();
  try {
    return await Promise.race([
      work,
      delay(timeoutMs, undefined, { signal: stop.signal }).then((): never => {
        throw new Error(`${what}: not within ${timeoutMs} ms`);
      }),
    ]);
  } finally {
    stop.abort();
  }
}
