/** The status codes of gRPC, in order of their numbers. */
const codes = [
  'Ok',
  'Cancelled',
  'Unknown',
  'InvalidArgument',
  'DeadlineExceeded',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'Unimplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'Unauthenticated',
] as const;
export type GrpcCode = (typeof codes)[number];
export const grpcCode = (number: number): GrpcCode => codes[number] ?? 'Unknown';

/** A call that did not succeed. Stays inside this plugin: what leaves it is a StorageError. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: GrpcCode;
  /** The server has certainly not seen the call, so that it may be made again whatever it does. */
  readonly unseen: boolean;
  constructor(code: GrpcCode, message: string, { unseen = false, ...options }: ErrorOptions & { readonly unseen?: boolean } = {}) {
    super(message, options);
    this.code = code;
    this.unseen = unseen;
  }
}
