import type { FieldError } from './field-error.ts';

/**
 * The maximum number of errors reported for one object. Upstream reports all; for an object with hundreds of thousands of errors, formatting
 * and sending them would cost many times the size of the object.
 */
export const maxFieldErrors = 1_000;

/** Returns the last entry of a truncated list of errors. */
const more = ({ field }: FieldError): FieldError => ({
  type: 'FieldValueTooMany',
  field,
  message: `Too many: the first ${maxFieldErrors} errors are listed, and there are more`,
});

class FieldErrorLimitReached extends Error {}

/** A list of errors that throws an exception when it is full, to end the validation. */
class FieldErrors extends Array<FieldError> {
  override push(...errors: FieldError[]): number {
    const remaining = maxFieldErrors - this.length;
    const [next] = errors.slice(remaining);
    if (next === undefined) return super.push(...errors);
    super.push(...errors.slice(0, remaining), more(next));
    throw new FieldErrorLimitReached();
  }
}

/**
 * Calls `find` with an empty list, and returns the errors that `find` adds, at most `maxFieldErrors`. When the list is full, adding throws an
 * exception that ends `find`.
 */
export function collectFieldErrors(find: (errors: FieldError[]) => void): readonly FieldError[] {
  const errors = new FieldErrors();
  try {
    find(errors);
  } catch (error) {
    if (!(error instanceof FieldErrorLimitReached)) throw error;
  }
  return [...errors];
}

/** Truncates a list to the reported errors. */
export function truncateFieldErrors(errors: readonly FieldError[]): readonly FieldError[] {
  const next = errors[maxFieldErrors];
  return next === undefined || (errors.length === maxFieldErrors + 1 && next.type === 'FieldValueTooMany')
    ? errors
    : [...errors.slice(0, maxFieldErrors), more(next)];
}
