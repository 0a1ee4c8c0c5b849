import { RuntimeError } from '@oarlock/spi/runtime';

/** What failed, as the slot has it: what is said already stays, and so does an abort. */
export function runtimeError(error: unknown): Error {
  if (error instanceof RuntimeError || !(error instanceof Error) || error.name === 'AbortError') return error as Error;
  const code = (error as { readonly code?: unknown }).code;
  return new RuntimeError(code === 'Unavailable' || code === 'TryAgain' ? 'Unavailable' : 'Internal', error.message, { cause: error });
}
