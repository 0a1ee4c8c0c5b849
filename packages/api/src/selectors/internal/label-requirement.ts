import { invalid, type FieldError } from '../../field/field-error.ts';
import { parseInt64 } from '../../values/int64.ts';
import { isLabelValue, isQualifiedName } from '../../values/names.ts';
import { ParseError } from '../../values/parse-error.ts';

export type LabelOperator = '=' | '==' | '!=' | 'in' | 'notin' | 'exists' | '!' | 'gt' | 'lt';
export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  /** The values: one for `=`, `==`, `!=`, `gt` and `lt`, at least one for `in` and `notin`, otherwise none. */
  readonly values: readonly string[];
}

const joined = (errors: readonly FieldError[]) => {
  const lines = [...new Set(errors.map(({ field, message }) => `${field}: ${message}`))];
  return lines.length === 1 ? (lines[0] ?? '') : `[${lines.join(', ')}]`;
};
export const invalidSelector = (message: string) => new ParseError('label-selector', message);

/** @throws ParseError for a key or value that no label can have */
export function checkRequirement({ key, operator, values }: LabelRequirement): void {
  const errors: FieldError[] = [];
  const keyErrors = isQualifiedName(key);
  if (keyErrors.length > 0) errors.push(invalid('key', key, keyErrors.join('; ')));
  if (operator === 'gt' || operator === 'lt') {
    for (const [i, value] of values.entries()) {
      if (parseInt64(value) === undefined)
        errors.push(invalid(`values[${i}]`, value, "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
  }
  for (const [i, value] of values.entries()) {
    const valueErrors = isLabelValue(value);
    if (valueErrors.length > 0) errors.push(invalid(`values[${i}][${key}]`, value, valueErrors.join('; ')));
  }
  if (errors.length > 0) throw invalidSelector(joined(errors));
}
