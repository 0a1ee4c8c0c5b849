import { badRequest } from '@oarlock/api/status';
import { parseDuration } from '@oarlock/api/values/duration';
import { ParseError } from '@oarlock/api/values/parse-error';

/** The time a request has: the server's limit, or less when `?timeout=` says so. @throws StatusError `BadRequest` */
export function requestDeadlineMs(limitMs: number, timeout: string | undefined): number {
  if (timeout === undefined || timeout === '') return limitMs;
  try {
    const asked = Number(parseDuration(timeout) / 1_000_000n);
    return asked <= 0 ? limitMs : Math.min(limitMs, asked);
  } catch (error) {
    if (error instanceof ParseError) throw badRequest(`invalid timeout specified in the request URL - ${error.message}`);
    throw error;
  }
}
