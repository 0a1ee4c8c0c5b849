import type { status } from '@grpc/grpc-js';

export type GrpcCode = keyof typeof status;

/** The gRPC status codes by name. */
export const grpcStatus = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const satisfies Readonly<Record<GrpcCode, number>>;

const codes = new Map(Object.entries(grpcStatus).map(([code, status]) => [status as number, code as GrpcCode]));
/** Returns the name of a gRPC status code; `UNKNOWN` for an unknown code. */
export const grpcCode = (status: number): GrpcCode => codes.get(status) ?? 'UNKNOWN';

const goNames = Object.fromEntries(
  Object.entries(grpcStatus).map(([code, status]) => [
    status,
    code === 'OK'
      ? code
      : code
          .split('_')
          .map((word) => `${word.charAt(0)}${word.slice(1).toLowerCase()}`)
          .join(''),
  ]),
);
// grpc-go spells this code in American English
goNames[grpcStatus.CANCELLED] = 'Canceled';

/** Returns the text of a failed call as programs in Go print it, which events and conditions of Kubernetes contain. */
export const rpcErrorText = (status: number, description: string): string =>
  `rpc error: code = ${goNames[status] ?? `Code(${status})`} desc = ${description}`;

/** Decodes the percent encoding of the header `grpc-message`. A percent sign that begins no code stays, as the gRPC protocol requires; never throws. */
export function decodeGrpcMessage(encoded: string): string {
  const bytes = encoded.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return bytes === encoded ? encoded : Buffer.from(bytes, 'latin1').toString();
}

/** A gRPC call that ended with a status other than OK. `code` is the name of the status. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError';
  readonly code: GrpcCode;
  /** True if the server did not receive the call, so that even a call that is not idempotent can be retried. */
  readonly notSent: boolean;
  constructor(code: GrpcCode, message: string, { notSent = false, ...options }: ErrorOptions & { readonly notSent?: boolean } = {}) {
    super(message, options);
    this.code = code;
    this.notSent = notSent;
  }

  /** The error as `rpc error: code = NotFound desc = ...`. */
  get rpcText(): string {
    return rpcErrorText(grpcStatus[this.code], this.message);
  }
}
