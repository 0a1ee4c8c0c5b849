export type CelErrorCode =
  | 'no-such-key'
  | 'no-such-field'
  | 'no-such-attribute'
  | 'no-such-overload'
  | 'division-by-zero'
  | 'overflow'
  | 'out-of-range'
  | 'invalid-argument'
  | 'budget'
  | 'internal';

/** Why an expression has no value. Messages are those of cel-go. */
export class CelError extends Error {
  override readonly name = 'CelError';
  readonly code: CelErrorCode;
  constructor(code: CelErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export const noSuchOverload = (): CelError => new CelError('no-such-overload', 'no such overload');
export const noSuchKey = (key: string): CelError => new CelError('no-such-key', `no such key: ${key}`);

/** Thrown through an expression whose value cannot be known before the promise settles; the evaluation is repeated then. */
export class Suspended {
  readonly until: Promise<unknown>;
  constructor(until: Promise<unknown>) {
    this.until = until;
  }
}

/** Errors that operators may absorb: those of the expression, not the end of its budget. */
export const absorbable = (error: unknown): error is CelError =>
  error instanceof CelError && error.code !== 'budget' && error.code !== 'internal';
