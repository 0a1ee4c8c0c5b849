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

/** An error of an evaluation. Messages are those of cel-go. */
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

/** Thrown to abort an evaluation that needs an asynchronous result; it is repeated when the promise settles. */
export class EvaluationSuspended {
  readonly until: Promise<unknown>;
  constructor(until: Promise<unknown>) {
    this.until = until;
  }
}

/** Returns true for errors that logical operators absorb: all but an exceeded budget and internal errors. */
export const isAbsorbable = (error: unknown): error is CelError =>
  error instanceof CelError && error.code !== 'budget' && error.code !== 'internal';
