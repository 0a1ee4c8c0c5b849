import { StatusError, failure, statusCodes, type Status, type StatusReason } from '@oarlock/api/status';

const reasons = new Map<number, StatusReason>([
  [400, 'BadRequest'],
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [405, 'MethodNotAllowed'],
  [406, 'NotAcceptable'],
  [409, 'Conflict'],
  [410, 'Gone'],
  [413, 'RequestEntityTooLarge'],
  [415, 'UnsupportedMediaType'],
  [422, 'Invalid'],
  [429, 'TooManyRequests'],
  [503, 'ServiceUnavailable'],
  [504, 'Timeout'],
]);
/** Limit of the response body in an error message, in characters. */
const maxBodyText = 2048;

/** Returns the Status of an error response. For a response without one, such as from a proxy, creates it from the code and the body. */
export function toStatusError(code: number, body: string, retryAfterSeconds: number | undefined): StatusError {
  const status = parseStatus(body);
  if (status !== undefined) return new StatusError({ ...status, code: status.code ?? code });
  const reason = reasons.get(code) ?? 'InternalError';
  const text = body.trim().slice(0, maxBodyText);
  const message =
    text === ''
      ? `the server answered ${code}`
      : `an error on the server (${JSON.stringify(text)}) has prevented the request from succeeding`;
  return failure(
    reason,
    message,
    retryAfterSeconds === undefined ? undefined : { retryAfterSeconds },
    reasons.has(code) ? statusCodes[reason] : code,
  );
}

function parseStatus(body: string): Status | undefined {
  if (!body.startsWith('{')) return undefined;
  try {
    const value = JSON.parse(body) as Partial<Status>;
    return value.kind === 'Status' ? (value as Status) : undefined;
  } catch {
    return undefined;
  }
}
