import { goErrorText } from '@oarlock/primitives/net/go-error-text';
import { RuntimeError, type RuntimeErrorCode } from '@oarlock/spi/runtime';

const byStatus: Readonly<Record<number, RuntimeErrorCode>> = {
  400: 'InvalidArgument',
  401: 'PermissionDenied',
  403: 'PermissionDenied',
  404: 'NotFound',
  409: 'FailedPrecondition',
  501: 'Unsupported',
  503: 'Unavailable',
};

// errors that the engine distinguishes only by message: it uses 500 for most registry errors and 409 for every conflict
const byMessage: readonly (readonly [RegExp, RuntimeErrorCode])[] = [
  [/\bis already in use by container\b/, 'AlreadyExists'],
  [/\b(?:unauthorized|no basic auth credentials|pull access denied|denied: |authentication required|40[13] )/i, 'PermissionDenied'],
  [/\b(?:manifest (?:for .* )?(?:unknown|not found)|no such image|not found: manifest unknown)\b/i, 'NotFound'],
];

/** Returns an error with the engine's message, which pod events and statuses contain, and a code derived from the message or the HTTP status. */
export function engineError(status: number, message: string): RuntimeError {
  const code = byMessage.find(([pattern]) => pattern.test(message))?.[1];
  return new RuntimeError(code ?? byStatus[status] ?? 'Internal', message);
}

/** Returns the error of a request that got no response. */
export function transportError(socket: string, error: Error): RuntimeError {
  return new RuntimeError('Unavailable', `the docker engine at ${socket} does not answer: ${goErrorText(error)}`, { cause: error });
}

export const hasCode = (error: unknown, ...codes: readonly RuntimeErrorCode[]): boolean =>
  error instanceof RuntimeError && codes.includes(error.code);
