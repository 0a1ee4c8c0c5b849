import type { FieldError } from './field-error.ts';

/**
 * How many faults of one object are listed. Upstream lists all; of hundreds of thousands nobody reads more, and to word and to send them would take
 * many times what the object itself did.
 */
export const mostFieldErrors = 1_000;

/** The end of a list that is longer. */
const more = ({ field }: FieldError): FieldError => ({
  type: 'FieldValueTooMany',
  field,
  message: `Too many: the first ${mostFieldErrors} errors are listed, and there are more`,
});

class Full extends Error {}

/** Takes as many faults as are listed: one more ends the search. */
class FieldErrors extends Array<FieldError> {
  override push(...errors: FieldError[]): number {
    const room = mostFieldErrors - this.length;
    const [next] = errors.slice(room);
    if (next === undefined) return super.push(...errors);
    super.push(...errors.slice(0, room), more(next));
    throw new Full();
  }
}

/** What `find` puts into its list, at most as much as is listed: it is ended then, wherever it is. */
export function fieldErrors(find: (errors: FieldError[]) => void): readonly FieldError[] {
  const errors = new FieldErrors();
  try {
    find(errors);
  } catch (error) {
    if (!(error instanceof Full)) throw error;
  }
  return [...errors];
}

/** The faults that are listed of all that were found. */
export function listed(errors: readonly FieldError[]): readonly FieldError[] {
  const next = errors[mostFieldErrors];
  return next === undefined || (errors.length === mostFieldErrors + 1 && next.type === 'FieldValueTooMany')
    ? errors
    : [...errors.slice(0, mostFieldErrors), more(next)];
}
