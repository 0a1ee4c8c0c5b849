/** The gRPC status codes, in order of their numbers. */
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

/** A failed call. The driver converts it into a StorageError before it leaves the plugin. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: GrpcCode;
  /** True if the server has certainly not received the call, so that any call can be retried. */
  readonly notSent: boolean;
  constructor(code: GrpcCode, message: string, { notSent = false, ...options }: ErrorOptions & { readonly notSent?: boolean } = {}) {
    super(message, options);
    this.code = code;
    this.notSent = notSent;
  }
}
