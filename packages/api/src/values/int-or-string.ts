import type { IntOrString } from '../generated/types/meta-v1.ts';
import { ParseError } from './parse-error.ts';

const percent = /^([0-9]+)%$/;

/**
 * Returns the value if it is a number, otherwise the percentage of `total`, rounded up or down (intstr.GetScaledValueFromIntOrPercent
 * upstream).
 * @throws ParseError with code `int-or-string` if the value is a string that is not a percentage
 */
export function scaledValue(value: IntOrString, total: number, roundUp: boolean): number {
  if (typeof value === 'number') return value;
  const match = percent.exec(value);
  if (match === null) throw new ParseError('int-or-string', 'invalid value for IntOrString: invalid type: string is not a percentage');
  const part = (Number(match[1]) * total) / 100;
  return roundUp ? Math.ceil(part) : Math.floor(part);
}

/**
 * Returns the value if it is a number, the parsed integer if it is a decimal string, and 0 for any other string such as `50%`
 * (IntOrString.IntValue upstream).
 */
export function intValue(value: IntOrString): number {
  if (typeof value === 'number') return value;
  return /^[+-]?[0-9]{1,10}$/.test(value) ? Number(value) : 0;
}
