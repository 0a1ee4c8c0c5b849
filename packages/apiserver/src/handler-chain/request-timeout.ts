import { badRequest } from '@oarlock/api/status';
import { parseDuration } from '@oarlock/api/values/duration';
import { ParseError } from '@oarlock/api/values/parse-error';

/**
 * Returns the timeout of a request in milliseconds: the value of its `timeout` parameter, but at most `limitMs`.
 * @throws StatusError `BadRequest` if the parameter is not a valid duration
 */
export function requestDeadlineMs(limitMs: number, timeout: string | undefined): number {
  if (timeout === undefined || timeout === '') return limitMs;
  try {
    const requested = Number(parseDuration(timeout) / 1_000_000n);
    return requested <= 0 ? limitMs : Math.min(limitMs, requested);
  } catch (error) {
    if (error instanceof ParseError) throw badRequest(`invalid timeout specified in the request URL - ${error.message}`);
    throw error;
  }
}
