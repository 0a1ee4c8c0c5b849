import { setTimeout as delay } from 'node:timers/promises';

/** Default deadline in milliseconds. Far more than any step needs, because test machines are slow and busy; a passing test never waits that long. */
export const patienceMs = 180_000;

export interface UntilOptions {
  /** Default: `patienceMs`. */
  readonly timeoutMs?: number;
  /** Milliseconds between two polls. Resources that can be watched are waited for with a watch instead. */
  readonly everyMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Polls until `look` returns a value other than undefined or false. An error of `look` counts as "not yet".
 * @throws Error with the latest result after the deadline
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
      throw new Error(`${what}: not within ${timeoutMs} ms${last === undefined ? '' : `; the last error was: ${String(last)}`}`, {
        cause: last,
      });
    await delay(everyMs, undefined, signal && { signal });
  }
}

/** As `until`, with the latest value in the error message. */
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

/** Rejects if `work` takes longer; does not cancel it. */
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
