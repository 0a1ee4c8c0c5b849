import type { ListMeta } from './object.ts';

/** Machine-readable reasons of `metav1.Status`, each with its HTTP status code. */
export const statusCodes = {
  BadRequest: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 404,
  MethodNotAllowed: 405,
  NotAcceptable: 406,
  AlreadyExists: 409,
  Conflict: 409,
  Gone: 410,
  Expired: 410,
  RequestEntityTooLarge: 413,
  UnsupportedMediaType: 415,
  Invalid: 422,
  TooManyRequests: 429,
  InternalError: 500,
  ServiceUnavailable: 503,
  ServerTimeout: 500,
  Timeout: 504,
} as const;
export type StatusReason = keyof typeof statusCodes;

/** A cause such as `FieldValueRequired`; `field` is a path such as `spec.containers[0].name`. */
export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}
export interface Status {
  readonly kind: 'Status';
  readonly apiVersion: 'v1';
  readonly metadata: ListMeta;
  readonly status: 'Success' | 'Failure';
  readonly message?: string;
  readonly reason?: StatusReason | (string & {});
  readonly details?: StatusDetails;
  readonly code?: number;
}

const brand = Symbol.for('oarlock:StatusError');

/** An error response of the API as handlers throw and clients receive it. Other exceptions of the server become `InternalError`. */
export class StatusError extends Error {
  /** Makes instanceof work across copies of this package, such as that of an external plugin. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'StatusError';
  readonly status: Status;
  constructor(status: Status, options?: ErrorOptions) {
    super(status.message ?? status.reason ?? 'unknown', options);
    this.status = status;
  }
  get reason(): string {
    return this.status.reason ?? '';
  }
  get code(): number {
    return this.status.code ?? 500;
  }
}

export function failure(reason: StatusReason, message: string, details?: StatusDetails, code: number = statusCodes[reason]): StatusError {
  return new StatusError({
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason,
    ...(details && { details }),
    code,
  });
}

interface Named {
  readonly group: string;
  readonly resource: string;
}
const qualified = ({ group, resource }: Named) => (group === '' ? resource : `${resource}.${group}`);
const detailsOf = ({ group, resource }: Named, name: string): StatusDetails => ({
  ...(name !== '' && { name }),
  ...(group !== '' && { group }),
  kind: resource,
});

export const notFound = (r: Named, name: string) => failure('NotFound', `${qualified(r)} "${name}" not found`, detailsOf(r, name));
export const alreadyExists = (r: Named, name: string) =>
  failure('AlreadyExists', `${qualified(r)} "${name}" already exists`, detailsOf(r, name));
export const conflict = (r: Named, name: string, why: string) =>
  failure('Conflict', `Operation cannot be fulfilled on ${qualified(r)} "${name}": ${why}`, detailsOf(r, name));
export const objectModified = 'the object has been modified; please apply your changes to the latest version and try again';
export const badRequest = (message: string) => failure('BadRequest', message);
export const expired = (message: string) => failure('Expired', message);
export const forbidden = (r: Named, name: string, why: string) =>
  failure('Forbidden', `${qualified(r)}${name === '' ? '' : ` "${name}"`} is forbidden: ${why}`, detailsOf(r, name));

export function isStatus(error: unknown, ...reasons: StatusReason[]): error is StatusError {
  return error instanceof StatusError && (reasons.length === 0 || reasons.some((reason) => reason === error.reason));
}
