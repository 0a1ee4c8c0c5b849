import type { FieldError } from './field-error.ts';

/**
 * The maximum number of errors reported for one object. Upstream reports all; for an object with hundreds of thousands of errors, formatting
 * and sending them would cost many times the size of the object.
 */
export const maxFieldErrors = 1_000;
/** No more errors are added to messages of this length in all. Messages quote the values, and several can quote the same value of megabytes. */
export const maxFieldErrorLength = 1 << 20;

/** Returns the last entry of a truncated list of errors. */
const more = (listed: number, { field }: FieldError): FieldError => ({
  type: 'FieldValueTooMany',
  field,
  message: `Too many: the first ${listed} errors are listed, and there are more`,
});

class FieldErrorLimitReached extends Error {}

/** A list of errors that throws an exception when it is full, to end the validation. */
class FieldErrors extends Array<FieldError> {
  #messageLength = 0;

  override push(...errors: FieldError[]): number {
    for (const error of errors) {
      if (this.length === maxFieldErrors || this.#messageLength > maxFieldErrorLength) {
        super.push(more(this.length, error));
        throw new FieldErrorLimitReached();
      }
      super.push(error);
      this.#messageLength += error.message.length;
    }
    return this.length;
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
export const truncateFieldErrors = (errors: readonly FieldError[]): readonly FieldError[] =>
  collectFieldErrors((list) => list.push(...errors));
