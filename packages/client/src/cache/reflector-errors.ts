import { isStatus } from '@oarlock/api/status';
import { TransportError } from '../http/connection.ts';

/** Returns true if the requested resourceVersion is newer than the server's: the server lost its state. */
export function isTooLargeVersion(error: unknown): boolean {
  return (
    isStatus(error) &&
    (error.status.details?.causes?.some(({ reason }) => reason === 'ResourceVersionTooLarge') === true ||
      /Too large resource version/i.test(error.message))
  );
}

/**
 * Returns true if a list would fail as the stream did, or if another stream can succeed: the server is not reachable, limits the request rate,
 * does not serve the resource, or does not have the resourceVersion.
 */
export function isStreamRetriable(error: unknown): boolean {
  const isUnreachable =
    error instanceof Error &&
    error.cause instanceof TransportError &&
    (error.cause.code === 'ConnectFailed' || error.cause.code === 'Refused');
  return isUnreachable || isStatus(error, 'TooManyRequests', 'NotFound', 'Expired', 'Gone') || isTooLargeVersion(error);
}
