import { failure, StatusError } from '@oarlock/api/status';
import { StorageError } from '@oarlock/spi/storage';

/** Returns the StatusError for a StorageError; returns other errors unchanged. */
export function toStatusError(error: unknown): unknown {
  if (!(error instanceof StorageError)) return error;
  const { status } = reasonOf(error);
  return new StatusError(status, { cause: error });
}

function reasonOf(error: StorageError): StatusError {
  switch (error.code) {
    case 'Compacted':
      return failure('Expired', 'The resourceVersion for the provided list is too old.');
    case 'FutureRevision':
      return failure('Timeout', `Timeout: Too large resource version: ${error.message}`, {
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
        retryAfterSeconds: 1,
      });
    case 'TooLarge':
      return failure('RequestEntityTooLarge', `Request entity too large: ${error.message}`);
    case 'Lagged':
    case 'Unavailable':
      return failure('Timeout', `Timeout: storage did not answer: ${error.message}`, { retryAfterSeconds: 1 });
    case 'Full':
    case 'Corrupt':
      return failure('InternalError', `Internal error occurred: ${error.message}`);
  }
}
