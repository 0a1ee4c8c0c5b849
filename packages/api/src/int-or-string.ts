import type { IntOrString } from './generated/types/meta-v1.ts';
import { ParseError } from './parse-error.ts';

const percent = /^([0-9]+)%$/;

/**
 * A number as it is, a percentage of `total`, rounded up or down.
 * @throws ParseError code `int-or-string` for a string that is no percentage.
 */
export function scaledValue(value: IntOrString, total: number, roundUp: boolean): number {
  if (typeof value === 'number') return value;
  const match = percent.exec(value);
  if (match === null) throw new ParseError('int-or-string', 'invalid value for IntOrString: invalid type: string is not a percentage');
  const part = (Number(match[1]) * total) / 100;
  return roundUp ? Math.ceil(part) : Math.floor(part);
}

/** The number of a number or of a decimal string, 0 for any other string: how ports and probes read it. */
export function intValue(value: IntOrString): number {
  if (typeof value === 'number') return value;
  return /^[+-]?[0-9]{1,10}$/.test(value) ? Number(value) : 0;
}
