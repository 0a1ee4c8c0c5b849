/**
 * What went wrong with an image:
 *
 * - `InvalidReference`: the name of the image is malformed;
 * - `NotFound`: the registry or the store has no such image, or the image has no manifest for the platform;
 * - `Unauthorized`: the registry denies access, with or without credentials;
 * - `Unavailable`: the registry or its authorization server cannot be reached, fails, or is too slow; a retry may succeed;
 * - `Unsupported`: the image uses a format that is rejected, such as a schema 1 manifest or a foreign layer;
 * - `InvalidContent`: the content of a manifest, config, layer or archive is malformed, hostile, or differs from its digest or size;
 * - `TooLarge`: content exceeds a limit of the store;
 * - `NoSpace`: the disk is full; the space of the attempt was given back;
 * - `InUse`: a snapshot or another process uses the object;
 * - `FailedPrecondition`: the machine lacks what the operation needs.
 */
export type OciErrorCode =
  | 'InvalidReference'
  | 'NotFound'
  | 'Unauthorized'
  | 'Unavailable'
  | 'Unsupported'
  | 'InvalidContent'
  | 'TooLarge'
  | 'NoSpace'
  | 'InUse'
  | 'FailedPrecondition';

/** The error of every operation of this package, except for aborted signals, whose reason is thrown as it is. The message has no credentials. */
export class OciError extends Error {
  override readonly name = 'OciError';
  readonly code: OciErrorCode;
  constructor(code: OciErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
