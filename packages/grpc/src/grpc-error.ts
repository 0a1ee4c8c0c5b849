import type { status } from '@grpc/grpc-js';

export type GrpcCode = keyof typeof status;

/** How a call of gRPC ended, by the name of its status. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: GrpcCode;
  constructor(code: GrpcCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
