import { CelError } from '../../values/cel-error.ts';
import { formatDouble } from '../../values/double-text.ts';
import { maxResultSize, tooLong } from './operators.ts';
import { toText } from './standard.ts';
import { compareStrings } from '../../values/equality.ts';
import {
  isList,
  isMap,
  itemsOf,
  kindOf,
  mapGet,
  mapKeys,
  numberOf,
  typeNameOf,
  TypeValue,
  Uint,
  type MapValue,
  type Value,
} from '../../values/value.ts';

const clause = /%(?:\.(\d{1,9}))?(.?)/gsu;
const fault = (message: string) => new CelError('invalid-argument', message);

/**
 * Implements `'%s has %d'.format([...])` of the strings extension.
 * @throws CelError with code `invalid-argument` if a verb is unknown or an argument is missing or has the wrong type
 */
export function formatText(text: string, args: readonly Value[]): string {
  let next = 0;
  let result = '';
  let last = 0;
  const add = (piece: string) => {
    result += piece;
    if (result.length > maxResultSize) throw tooLong();
  };
  for (const match of text.matchAll(clause)) {
    const [whole, precision, verb = ''] = match;
    add(text.slice(last, match.index));
    last = match.index + whole.length;
    if (verb === '%') {
      add('%');
      continue;
    }
    if (verb === '') throw fault('unexpected end of string');
    if (next >= args.length) throw fault(`index ${next} out of range`);
    add(formatOne(verb, args[next++] ?? null, precision === undefined ? undefined : Number(precision)));
  }
  add(text.slice(last));
  if (next < args.length) throw fault(`too many arguments supplied to string.format (expected ${next}, got ${args.length})`);
  return result;
}

function formatOne(verb: string, value: Value, precision: number | undefined): string {
  const number = numberOf(value);
  switch (verb) {
    case 's':
      return plainText(value);
    case 'd':
      if (kindOf(value) === 'int' || value instanceof Uint || (kindOf(value) === 'double' && !Number.isFinite(Number(number))))
        return toText(value);
      throw fault(`error during formatting: decimal clause can only be used on integers, was given ${typeNameOf(value)}`);
    case 'f':
      return special(number, value, 'fixed-point', (real) => real.toFixed(Math.min(precision ?? 6, 100)));
    case 'e':
      return special(number, value, 'scientific', (real) => {
        const [mantissa = '', exponent = '0'] = real.toExponential(Math.min(precision ?? 6, 100)).split('e');
        const power = Number(exponent);
        return `${mantissa}e${power < 0 ? '-' : '+'}${Math.abs(power).toString().padStart(2, '0')}`;
      });
    case 'b':
      if (typeof value === 'boolean') return value ? '1' : '0';
      return whole(value, 'binary').toString(2);
    case 'o':
      return whole(value, 'octal').toString(8);
    case 'x':
    case 'X': {
      const hex =
        typeof value === 'string'
          ? Buffer.from(value).toString('hex')
          : value instanceof Uint8Array
            ? Buffer.from(value).toString('hex')
            : whole(value, 'hex').toString(16);
      return verb === 'X' ? hex.toUpperCase() : hex;
    }
    default:
      throw fault(`could not parse formatting clause: unrecognized formatting clause "${verb}"`);
  }
}

function whole(value: Value, name: string): bigint {
  if (value instanceof Uint) return value.value;
  if (kindOf(value) !== 'int')
    throw fault(`error during formatting: ${name} clause can only be used on integers, was given ${typeNameOf(value)}`);
  return BigInt(value as number | bigint);
}

function special(number: number | bigint | undefined, value: Value, name: string, write: (real: number) => string): string {
  if (number === undefined)
    throw fault(`error during formatting: ${name} clause can only be used on doubles, was given ${typeNameOf(value)}`);
  const real = Number(number);
  if (Number.isNaN(real)) return 'NaN';
  if (!Number.isFinite(real)) return real > 0 ? 'Infinity' : '-Infinity';
  return write(real);
}

function plainText(value: Value): string {
  if (value === null) return 'null';
  if (value instanceof TypeValue) return value.name;
  if (isList(value)) return `[${bounded(itemsOf(value), plainText)}]`;
  if (isMap(value)) return mapText(value);
  if (kindOf(value) === 'double') {
    const real = Number(numberOf(value));
    return Number.isFinite(real) ? formatDouble(real) : special(real, value, '', String);
  }
  try {
    return toText(value);
  } catch (error) {
    if (!(error instanceof CelError) || error.code !== 'no-such-overload') throw error;
    throw fault(
      `error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given ${typeNameOf(value)}`,
    );
  }
}
function bounded<T>(items: readonly T[], write: (item: T) => string): string {
  let size = 0;
  return items
    .map((item) => {
      const text = write(item);
      size += text.length;
      if (size > maxResultSize) throw tooLong();
      return text;
    })
    .join(', ');
}
function mapText(value: MapValue): string {
  const entries = mapKeys(value).map((key) => [plainText(key), key] as const);
  entries.sort(([a], [b]) => compareStrings(a, b));
  return `{${bounded(entries, ([text, key]) => `${text}: ${plainText(mapGet(value, key) ?? null)}`)}}`;
}
