import { RuntimeError } from '@oarlock/spi/runtime';

/** Converts an error to a RuntimeError. A RuntimeError or an abort stays as it is. */
export function toRuntimeError(error: unknown): Error {
  if (error instanceof RuntimeError || !(error instanceof Error) || error.name === 'AbortError') return error as Error;
  const code = (error as { readonly code?: unknown }).code;
  return new RuntimeError(code === 'Unavailable' || code === 'TryAgain' ? 'Unavailable' : 'Internal', error.message, { cause: error });
}
