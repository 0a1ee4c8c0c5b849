import { StorageError } from '@oarlock/spi/storage';
import { GrpcError } from './grpc-error.ts';

/** What etcd says beside the code of gRPC (its rpctypes), and what that means here. */
const said = [
  ['required revision has been compacted', 'Compacted'],
  ['required revision is a future revision', 'FutureRevision'],
  ['request is too large', 'TooLarge'],
  ['too many operations in txn request', 'TooLarge'],
  ['received message larger than max', 'TooLarge'],
  ['database space exceeded', 'Full'],
] as const;

/** The error of the room for one of a call. What is not a refusal leaves open whether the call had an effect. */
export function storageError(error: unknown): unknown {
  if (!(error instanceof GrpcError)) return error;
  const code = said.find(([text]) => error.message.includes(text))?.[1] ?? 'Unavailable';
  return new StorageError(code, error.message, { cause: error });
}

export function isLeaseNotFound(error: unknown): boolean {
  return error instanceof GrpcError && error.code === 'NotFound' && error.message.includes('lease not found');
}
