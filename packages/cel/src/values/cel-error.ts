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

/** An error of an evaluation. `message` is the message of cel-go. */
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

/** Thrown to abort an evaluation that needs an asynchronous result. The caller repeats the evaluation when the promise settles. */
export class EvaluationSuspended {
  readonly until: Promise<unknown>;
  constructor(until: Promise<unknown>) {
    this.until = until;
  }
}

/**
 * Returns true for errors that `&&` and `||` ignore if the other operand determines the result: all except internal errors and an exceeded
 * cost budget.
 */
export const isAbsorbable = (error: unknown): error is CelError =>
  error instanceof CelError && error.code !== 'budget' && error.code !== 'internal';
