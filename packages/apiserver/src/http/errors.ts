import { isObject } from '@oarlock/api/json/json';
import { failure, statusCodes, StatusError, type Status, type StatusReason } from '@oarlock/api/status';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { errorName, stackWithoutMessage } from '../endpoints/request/confidential.ts';

export interface FailedRequest {
  readonly method: string;
  readonly path: string | undefined;
  /** True if error messages may quote confidential bodies. */
  readonly isConfidential: boolean;
}

/** Returns the error to send to the client: a StatusError unchanged, any other error as `InternalError`. The other error is logged. */
export function statusOf(error: unknown, log: Logger, { method, path, isConfidential }: FailedRequest): StatusError {
  if (error instanceof StatusError) return error;
  log.error({ method, path, ...(isConfidential ? { error: stackWithoutMessage(error) } : { err: error }) }, 'request failed');
  return internalError(isConfidential ? errorName(error) : errorText(error), error);
}

export function internalError(message: string, cause?: unknown): StatusError {
  const { status } = failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });
  return new StatusError(status, cause === undefined ? undefined : { cause });
}

/** Converts the error response of another API server to a StatusError. */
export function remoteRejection(code: number, answer: unknown): StatusError {
  if (isObject(answer) && answer['kind'] === 'Status') return new StatusError(answer as unknown as Status);
  const reason = (Object.keys(statusCodes) as StatusReason[]).find((known) => statusCodes[known] === code) ?? 'InternalError';
  const message = isObject(answer) && typeof answer['message'] === 'string' ? answer['message'] : JSON.stringify(answer);
  return failure(reason, message, undefined, code);
}

export const unauthorized = (): StatusError => failure('Unauthorized', 'Unauthorized');
export const timedOut = (): StatusError => failure('Timeout', 'request did not complete within the allotted timeout', {});
export const shuttingDown = (): StatusError => failure('ServiceUnavailable', 'the server is shutting down', { retryAfterSeconds: 1 });
export const entityTooLarge = (limit: number): StatusError =>
  failure('RequestEntityTooLarge', `Request entity too large: limit is ${limit}`);

/** The body of Go's `http.NotFound`, with which upstream responds to unknown paths. */
export const plainNotFound = '404 page not found\n';
