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

// what the engine says by its message alone: with 500 for most of what goes wrong at a registry, with 409 for every conflict
const byMessage: readonly (readonly [RegExp, RuntimeErrorCode])[] = [
  [/\bis already in use by container\b/, 'AlreadyExists'],
  [/\b(?:unauthorized|no basic auth credentials|pull access denied|denied: |authentication required|40[13] )/i, 'PermissionDenied'],
  [/\b(?:manifest (?:for .* )?(?:unknown|not found)|no such image|not found: manifest unknown)\b/i, 'NotFound'],
];

/** The words of the engine, which events and statuses of pods carry, with the code that its status or its words stand for. */
export function engineError(status: number, message: string): RuntimeError {
  const said = byMessage.find(([pattern]) => pattern.test(message))?.[1];
  return new RuntimeError(said ?? byStatus[status] ?? 'Internal', message);
}

/** What kept a request from being answered. */
export function transportError(socket: string, error: Error): RuntimeError {
  return new RuntimeError('Unavailable', `the docker engine at ${socket} does not answer: ${error.message}`, { cause: error });
}

export const hasCode = (error: unknown, ...codes: readonly RuntimeErrorCode[]): boolean =>
  error instanceof RuntimeError && codes.includes(error.code);
