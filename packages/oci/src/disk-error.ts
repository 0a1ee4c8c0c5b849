import { OciError } from './oci-error.ts';

/** Converts the errors of a full disk; others are returned as they are. */
export function diskError(error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new OciError('NoSpace', `no space left on device: ${message}`, { cause: error });
  return error as Error;
}
