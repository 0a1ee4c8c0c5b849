import { StorageError } from '@oarlock/spi/storage';
import { GrpcError } from '@oarlock/grpc/grpc-error';

/** Error messages of etcd (its rpctypes), for errors whose gRPC code is ambiguous. */
const knownMessages = [
  ['required revision has been compacted', 'Compacted'],
  ['required revision is a future revision', 'FutureRevision'],
  ['request is too large', 'TooLarge'],
  ['too many operations in txn request', 'TooLarge'],
  ['received message larger than max', 'TooLarge'],
  ['database space exceeded', 'Full'],
  // all members reject writes while one of them has the alarm CORRUPT
  ['corrupt cluster', 'Corrupt'],
] as const;

/** Converts a GrpcError into a StorageError. With `Unavailable` it is unknown whether the call took effect. */
export function toStorageError(error: unknown): unknown {
  if (!(error instanceof GrpcError)) return error;
  const code = knownMessages.find(([text]) => error.message.includes(text))?.[1] ?? 'Unavailable';
  return new StorageError(code, error.message, { cause: error });
}

export function isLeaseNotFound(error: unknown): boolean {
  return error instanceof GrpcError && error.code === 'NOT_FOUND' && error.message.includes('lease not found');
}
