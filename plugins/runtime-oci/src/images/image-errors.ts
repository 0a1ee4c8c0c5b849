import { OciError, type OciErrorCode } from '@oarlock/oci/oci-error';
import { RuntimeError, type RuntimeErrorCode } from '@oarlock/spi/runtime';

const codes: Readonly<Record<OciErrorCode, RuntimeErrorCode>> = {
  InvalidReference: 'InvalidArgument',
  NotFound: 'NotFound',
  Unauthorized: 'PermissionDenied',
  Unavailable: 'Unavailable',
  Unsupported: 'Unsupported',
  InvalidContent: 'FailedPrecondition',
  TooLarge: 'FailedPrecondition',
  NoSpace: 'Internal',
  InUse: 'FailedPrecondition',
  FailedPrecondition: 'FailedPrecondition',
};

/** Returns the result of an operation on images, with its errors as RuntimeErrors. */
export async function asRuntimeResult<T>(operation: Promise<T>): Promise<T> {
  try {
    return await operation;
  } catch (cause) {
    if (cause instanceof OciError) throw new RuntimeError(codes[cause.code], cause.message, { cause });
    throw cause;
  }
}
