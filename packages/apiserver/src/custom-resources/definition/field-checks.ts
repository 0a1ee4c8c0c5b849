import { invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { isDns1035Label } from '@oarlock/api/values/names';

/** Returns true if a required field has a value. Adds an error if it is empty; schema validation reports an absent field. */
export function requireNonEmpty(errors: FieldError[], path: string, value: string | undefined): boolean {
  if (value === '') errors.push(required(path));
  return value !== undefined && value !== '';
}

/** Returns an error if the value is empty or not one of `allowed`; an absent value is valid. */
export function oneOfErrors(path: string, value: string | undefined, allowed: readonly string[]): FieldError[] {
  if (value === '') return [required(path)];
  return value === undefined || allowed.includes(value) ? [] : [notSupported(path, value, allowed)];
}

export function validateLabel(errors: FieldError[], path: string, value: string | undefined): void {
  if (value === undefined || value === '') return;
  const wrong = isDns1035Label(value);
  if (wrong.length > 0) errors.push(invalid(path, value, wrong.join(',')));
}
