import { stringifyExact } from '../json/exact-json.ts';
import { escapeHtml, goQuote } from '../json/go-print.ts';

/** The error types (field.ErrorType of apimachinery), each with the beginning of its messages. */
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

/** An error of one field (field.Error). `message` is Kubernetes' message without the path, e.g. `Invalid value: "A": a lowercase ...`. */
export interface FieldError {
  readonly type: FieldErrorType;
  readonly field: string;
  readonly message: string;
}

const show = (value: unknown) =>
  value === undefined ? 'null' : typeof value === 'string' ? goQuote(value) : escapeHtml(stringifyExact(value));
const counted = (count: number, unit: string) => `${count} ${unit}${count === 1 ? '' : 's'}`;
const make = (type: FieldErrorType, field: string, value: string | undefined, detail: string | undefined): FieldError => ({
  type,
  field,
  message: [words[type], value, detail].filter((part) => part !== undefined && part !== '').join(': '),
});

export const required = (field: string, detail = '') => make('FieldValueRequired', field, undefined, detail);
export const invalid = (field: string, value: unknown, detail: string) => make('FieldValueInvalid', field, show(value), detail);
/** Returns an error of type FieldValueInvalid whose message does not contain the value. */
export const invalidOmittingValue = (field: string, detail: string) => make('FieldValueInvalid', field, undefined, detail);
export const typeInvalid = (field: string, value: unknown, detail: string) => make('FieldValueTypeInvalid', field, show(value), detail);
export const duplicate = (field: string, value: unknown) => make('FieldValueDuplicate', field, show(value), undefined);
export const fieldForbidden = (field: string, detail: string) => make('FieldValueForbidden', field, undefined, detail);
export const tooLong = (field: string, max: number) =>
  make('FieldValueTooLong', field, undefined, `may not be more than ${counted(max, 'byte')}`);
export const tooMany = (field: string, count: number, max: number) =>
  make('FieldValueTooMany', field, String(count), `must have at most ${counted(max, 'item')}`);
export const fieldNotFound = (field: string, value: unknown) => make('FieldValueNotFound', field, show(value), undefined);
const valuesInOrder = (supported: readonly string[]) =>
  supported.length === 0 ? '' : `supported values: ${supported.map((s) => JSON.stringify(s)).join(', ')}`;
export const notSupported = (field: string, value: unknown, supported: readonly string[]) =>
  notSupportedInOrder(field, value, [...supported].sort());
/** Returns an error of type FieldValueNotSupported that lists the supported values in the given order instead of sorted. */
export const notSupportedInOrder = (field: string, value: unknown, supported: readonly string[]) =>
  make('FieldValueNotSupported', field, show(value), valuesInOrder(supported));
