import { status as grpc, type ServiceError } from '@grpc/grpc-js';
import { rpcErrorText } from '@oarlock/grpc/grpc-error';
import { RuntimeError, type RuntimeErrorCode } from '@oarlock/spi/runtime';

const byCode: Readonly<Partial<Record<grpc, RuntimeErrorCode>>> = {
  [grpc.NOT_FOUND]: 'NotFound',
  [grpc.ALREADY_EXISTS]: 'AlreadyExists',
  [grpc.INVALID_ARGUMENT]: 'InvalidArgument',
  [grpc.OUT_OF_RANGE]: 'InvalidArgument',
  [grpc.FAILED_PRECONDITION]: 'FailedPrecondition',
  [grpc.ABORTED]: 'FailedPrecondition',
  [grpc.DEADLINE_EXCEEDED]: 'DeadlineExceeded',
  [grpc.PERMISSION_DENIED]: 'PermissionDenied',
  [grpc.UNAUTHENTICATED]: 'PermissionDenied',
  [grpc.UNIMPLEMENTED]: 'Unsupported',
  [grpc.UNAVAILABLE]: 'Unavailable',
};

// containerd distinguishes many errors only by message, with the code Unknown (or, for example, NotFound for a sandbox's network)
const byMessage: readonly (readonly [RegExp, RuntimeErrorCode])[] = [
  [/\bname "[^"]*" is reserved for\b|\bis already in use\b/, 'AlreadyExists'],
  [
    /\bis in CONTAINER_\w+ state\b|\bcontainer is not (?:in )?(?:running|created)\b|\bsandbox container "[^"]*" is not running\b|\bcontainer is in \w+ state\b/,
    'FailedPrecondition',
  ],
  [
    /\b(?:authorization failed|insufficient_scope|no basic auth credentials|pull access denied)\b|\b40[13] (?:Unauthorized|Forbidden)\b/,
    'PermissionDenied',
  ],
  // containerd accepts calls before its services are initialized
  [/\bserver is not initialized yet\b/, 'Unavailable'],
  [/\bno runtime for "[^"]*" is configured\b/, 'InvalidArgument'],
];

/** Converts a gRPC error to a RuntimeError. The message has the text that upstream's kubelet reports, because pod events contain it. */
export function toRuntimeError(error: ServiceError): RuntimeError {
  const message = rpcErrorText(error.code, error.details);
  // containerd 2.x reports a reserved name as FailedPrecondition
  const unclear = error.code === grpc.UNKNOWN || error.code === grpc.INTERNAL || error.code === grpc.FAILED_PRECONDITION;
  const code = (unclear ? byMessage.find(([pattern]) => pattern.test(error.details))?.[1] : undefined) ?? byCode[error.code] ?? 'Internal';
  return new RuntimeError(code, message, { cause: error, runtimeMessage: error.details });
}

export const isNotFound = (error: unknown): boolean => error instanceof RuntimeError && error.code === 'NotFound';

/** Awaits a stop or remove call and ignores NotFound errors. @throws any other error of the call */
export async function ignoreNotFound(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Returns a message field of a response. @throws RuntimeError `Internal` if the field is absent */
export function required<T>(value: T | null, method: string): T {
  if (value === null) throw new RuntimeError('Internal', `the ${method} response of the runtime is empty`);
  return value;
}
