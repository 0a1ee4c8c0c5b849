import { stringifyExact } from './exact-json.ts';
import { listed } from './field-errors.ts';
import { goQuote } from './go-print.ts';
import { failure, type StatusCause, type StatusError } from './status.ts';

/** `field.ErrorType` of apimachinery with the words its messages open with. */
const words = {
  FieldValueRequired: 'Required value',
  FieldValueInvalid: 'Invalid value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
  FieldValueNotFound: 'Not found',
  FieldValueTypeInvalid: 'Invalid value',
  InternalError: 'Internal error',
} as const;
export type FieldErrorType = keyof typeof words;

/** One thing wrong with one field. `message` has Kubernetes' wording without the path, e.g. `Invalid value: "A": a lowercase ...`. */
export interface FieldError {
  readonly type: FieldErrorType;
  readonly field: string;
  readonly message: string;
}

const show = (value: unknown) => (value === undefined ? 'null' : typeof value === 'string' ? goQuote(value) : stringifyExact(value));
const make = (type: FieldErrorType, field: string, value: string | undefined, detail: string | undefined): FieldError => ({
  type,
  field,
  message: [words[type], value, detail].filter((part) => part !== undefined && part !== '').join(': '),
});

export const required = (field: string, detail = '') => make('FieldValueRequired', field, undefined, detail);
export const invalid = (field: string, value: unknown, detail: string) => make('FieldValueInvalid', field, show(value), detail);
/** The same where the value is not said. */
export const invalidOmitted = (field: string, detail: string) => make('FieldValueInvalid', field, undefined, detail);
export const typeInvalid = (field: string, value: unknown, detail: string) => make('FieldValueTypeInvalid', field, show(value), detail);
export const duplicate = (field: string, value: unknown) => make('FieldValueDuplicate', field, show(value), undefined);
export const fieldForbidden = (field: string, detail: string) => make('FieldValueForbidden', field, undefined, detail);
export const tooLong = (field: string, max: number) => make('FieldValueTooLong', field, undefined, `may not be more than ${max} bytes`);
export const tooMany = (field: string, count: number, max: number) =>
  make('FieldValueTooMany', field, String(count), `must have at most ${max} items`);
export const notFoundValue = (field: string, value: unknown) => make('FieldValueNotFound', field, show(value), undefined);
const valuesInOrder = (supported: readonly string[]) =>
  supported.length === 0 ? '' : `supported values: ${supported.map((s) => JSON.stringify(s)).join(', ')}`;
export const notSupported = (field: string, value: unknown, supported: readonly string[]) => notListed(field, value, [...supported].sort());
/** The same of values that users listed: in their order. */
export const notListed = (field: string, value: unknown, supported: readonly string[]) =>
  make('FieldValueNotSupported', field, show(value), valuesInOrder(supported));

/** The 422 that Kubernetes answers: `Pod "a" is invalid: spec.x: Required value`, the errors that are listed in one Status with their causes. */
export function invalidStatus(
  what: { readonly group: string; readonly kind: string; readonly name: string },
  found: readonly FieldError[],
): StatusError {
  const errors = listed(found);
  const lines = errors.map(({ field, message }) => `${field}: ${message}`);
  const text = lines.length === 1 ? lines[0] : `[${lines.join(', ')}]`;
  const causes = errors.map(({ type, field, message }): StatusCause => ({ reason: type, message, field }));
  const kind = what.group === '' ? what.kind : `${what.kind}.${what.group}`;
  return failure('Invalid', `${kind} "${what.name}" is invalid: ${text}`, {
    ...(what.name !== '' && { name: what.name }),
    ...(what.group !== '' && { group: what.group }),
    ...(what.kind !== '' && { kind: what.kind }),
    causes,
  });
}
