import { isStatus } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { TransportErrorCode } from './connection.ts';

/** The pause between two attempts and the time after which no attempt begins, in milliseconds: those of kubeadm for the requests of a join. */
export const retryTimes = { pauseMs: 500, longestMs: 60_000 } as const;

export interface RetryOptions {
  readonly clock?: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly signal?: AbortSignal;
  /** Returns true for an error after which another attempt is made. Default: `isUnavailable`. */
  readonly isRetried?: (error: unknown) => boolean;
  /** Called with the error of the first attempt that failed. */
  readonly onWait?: (error: unknown) => void;
}

/** Repeats a call while its error is one that passes. @throws the error of the last attempt, or the signal's reason */
export async function retryUnavailable<T>(
  call: () => Promise<T>,
  { clock = systemClock, signal, isRetried = isUnavailable, onWait }: RetryOptions = {},
): Promise<T> {
  const startedAt = clock.monotonic();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      signal?.throwIfAborted();
      if (!isRetried(error) || clock.monotonic() - startedAt >= retryTimes.longestMs) throw error;
      if (attempt === 1) onWait?.(error);
      await clock.sleep(retryTimes.pauseMs, signal);
    }
  }
}

/** Codes of errors of a connection that pass, as while a server starts again: of this package, of the system and of HTTP/2. */
const passingCodes: ReadonlySet<unknown> = new Set([
  ...(['ConnectFailed', 'Refused', 'Lost', 'Timeout'] satisfies TransportErrorCode[]),
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'],
  ...['ERR_HTTP2_STREAM_CANCEL', 'ERR_HTTP2_STREAM_ERROR', 'ERR_HTTP2_SESSION_ERROR'],
]);

/** Returns true if a server cannot process the request now, or if the connection has failed in a way that passes. A wrong certificate does not pass. */
export function isUnavailable(error: unknown): boolean {
  if (!isStatus(error, 'ServiceUnavailable', 'Timeout', 'ServerTimeout', 'TooManyRequests')) return false;
  let innermost: Error = error;
  while (innermost.cause instanceof Error) innermost = innermost.cause;
  return innermost === error || passingCodes.has((innermost as NodeJS.ErrnoException).code);
}
