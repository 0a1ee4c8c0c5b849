import { CelError, noSuchOverload } from '../../values/cel-error.ts';
import { formatDouble } from '../../values/double-text.ts';
import { fn, traversal, type Library } from '../library.ts';
import {
  civilTime,
  formatSeconds,
  formatTimestamp,
  parseDurationText,
  parseTimestampText,
  type CivilTime,
} from '../../values/time-text.ts';
import {
  Double,
  doubleOf,
  Duration,
  intOf,
  kindOf,
  none,
  numberOf,
  Optional,
  Timestamp,
  typeNameOf,
  TypeValue,
  type Uint,
  uintOf,
  isList,
  itemsOf,
  isMap,
  sizeOf,
  type ListValue,
  type Value,
} from '../../values/value.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

function conversion<T>(text: string, into: string, parse: () => T | undefined): T {
  const value = parse();
  if (value === undefined) throw new CelError('invalid-argument', `type conversion error from 'string' to '${into}'`);
  return value;
}
const decimal = /^[+-]?\d{1,20}$/;

function toInt(value: Value): Value {
  switch (kindOf(value)) {
    case 'int':
      return value;
    case 'uint':
      return intOf((value as Uint).value);
    case 'double': {
      const double = Number(numberOf(value));
      if (!(double > -(2 ** 63) && double < 2 ** 63)) throw new CelError('overflow', 'integer overflow');
      return intOf(BigInt(Math.trunc(double)));
    }
    case 'string':
      return conversion(value as string, 'int', () =>
        decimal.test(value as string) ? intOf(BigInt((value as string).replace(/^\+/, ''))) : undefined,
      );
    case 'timestamp': {
      const { nanos } = value as Timestamp;
      return intOf(nanos / 1_000_000_000n - (nanos % 1_000_000_000n < 0n ? 1n : 0n));
    }
    case 'duration':
      return intOf((value as Duration).nanos);
    default:
      throw noSuchOverload();
  }
}

function toUint(value: Value): Value {
  switch (kindOf(value)) {
    case 'uint':
      return value;
    case 'int':
      return uintOf(BigInt(value as number | bigint));
    case 'double': {
      const double = Number(numberOf(value));
      if (!(double >= 0 && double < 2 ** 64)) throw new CelError('overflow', 'unsigned integer overflow');
      return uintOf(BigInt(Math.trunc(double)));
    }
    case 'string':
      return conversion(value as string, 'uint', () => (/^\d{1,20}$/.test(value as string) ? uintOf(BigInt(value as string)) : undefined));
    default:
      throw noSuchOverload();
  }
}

const float = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)$/i;
function toDouble(value: Value): Value {
  if (typeof value === 'string') {
    return conversion(value, 'double', () => {
      if (!float.test(value)) return undefined;
      const lower = value.toLowerCase();
      if (lower.includes('inf')) return lower.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
      return lower.includes('nan') ? Number.NaN : doubleOf(Number(value));
    });
  }
  const number = numberOf(value);
  if (number === undefined) throw noSuchOverload();
  return kindOf(value) === 'double' ? value : new Double(Number(number));
}

export function toText(value: Value): string {
  switch (kindOf(value)) {
    case 'string':
      return value as string;
    case 'bool':
    case 'int':
      return typeof value === 'number' ? BigInt(value).toString() : String(value);
    case 'uint':
      return (value as Uint).value.toString();
    case 'double':
      return formatDouble(Number(numberOf(value)));
    case 'bytes':
      try {
        return utf8.decode(value as Uint8Array);
      } catch (error) {
        throw new CelError('invalid-argument', 'invalid UTF-8 in bytes, cannot convert to string', { cause: error });
      }
    case 'timestamp':
      return formatTimestamp(value as Timestamp);
    case 'duration':
      return formatSeconds(value as Duration);
    default:
      throw noSuchOverload();
  }
}

function toBool(value: Value): boolean {
  if (typeof value === 'boolean') return value;
  if (typeof value !== 'string') throw noSuchOverload();
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(value)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(value)) return false;
  throw new CelError('invalid-argument', "type conversion error from 'string' to 'bool'");
}

function toTimestamp(value: Value): Value {
  if (value instanceof Timestamp) return value;
  if (typeof value === 'string') return parseTimestampText(value);
  if (kindOf(value) === 'int') return new Timestamp(BigInt(value as number | bigint) * 1_000_000_000n);
  throw noSuchOverload();
}
function toDuration(value: Value): Value {
  if (value instanceof Duration) return value;
  if (typeof value === 'string') return parseDurationText(value);
  if (kindOf(value) === 'int') return new Duration(BigInt(value as number | bigint));
  throw noSuchOverload();
}

const dynamic = true;
const from = (name: string, sources: readonly string[], result = name) => sources.map((source) => `${name}(${source}): ${result}`);
const part = (name: string, of: (time: CivilTime) => number) =>
  fn([`(timestamp).${name}(): int`, `(timestamp).${name}(string): int`], (value: Timestamp, zone?: string) => of(civilTime(value, zone)));
const partOrDuration = (name: string, of: (time: CivilTime) => number, whole: (nanos: bigint) => bigint) =>
  fn(
    [`(timestamp).${name}(): int`, `(timestamp).${name}(string): int`, `(duration).${name}(): int`],
    (value: Timestamp | Duration, zone?: string) => (value instanceof Duration ? intOf(whole(value.nanos)) : of(civilTime(value, zone))),
  );

function zeroish(value: Value): boolean {
  if (isList(value)) return sizeOf(value) === 0;
  if (isMap(value)) return sizeOf(value) === 0;
  const number = numberOf(value);
  if (number !== undefined) return Number(number) === 0;
  if (value instanceof Duration || value instanceof Timestamp) return value.nanos === 0n;
  if (value instanceof Uint8Array) return value.length === 0;
  return value === '' || value === false || value === null;
}

const optionalOf = (value: Value | undefined) => (value === undefined ? none : new Optional(value));
const unwrap = (list: ListValue) =>
  itemsOf(list).flatMap((each) => (each instanceof Optional && each.value !== undefined ? [each.value] : []));

const text = { cost: traversal };
const matching = { cost: (a: number, b: number) => Math.max(1, traversal(a)) * Math.max(1, traversal(b)) };

/** The standard functions of the CEL specification, and the functions of optional values. */
export const standard: Library = {
  name: 'standard',
  functions: [
    fn(from('int', ['int', 'uint', 'double', 'string', 'timestamp', 'duration']), toInt, { dynamic }),
    fn(from('uint', ['uint', 'int', 'double', 'string']), toUint, { dynamic }),
    fn(from('double', ['double', 'int', 'uint', 'string']), toDouble, { dynamic }),
    fn(from('string', ['string', 'bool', 'int', 'uint', 'double', 'bytes', 'timestamp', 'duration']), toText, {
      dynamic,
      cost: (size) => Math.max(1, traversal(size)),
    }),
    fn(from('bool', ['bool', 'string']), toBool, { dynamic }),
    fn(
      ['bytes(bytes): bytes', 'bytes(string): bytes'],
      (value: string | Uint8Array) => (typeof value === 'string' ? Uint8Array.from(Buffer.from(value)) : value),
      text,
    ),
    fn(from('timestamp', ['timestamp', 'string', 'int']), toTimestamp, { dynamic }),
    fn(from('duration', ['duration', 'string', 'int']), toDuration, { dynamic }),
    fn('dyn(A): dyn', (value: Value) => value, { dynamic }),
    fn('type(A): type<A>', (value: Value) => new TypeValue(typeNameOf(value)), { dynamic }),
    fn('(string).startsWith(string): bool', (a: string, b: string) => a.startsWith(b), {
      cost: (_, prefix) => Math.max(1, traversal(prefix)),
    }),
    fn('(string).endsWith(string): bool', (a: string, b: string) => a.endsWith(b), { cost: (_, suffix) => Math.max(1, traversal(suffix)) }),
    fn('(string).contains(string): bool', (a: string, b: string) => a.includes(b), matching),
    part('getFullYear', ({ year }) => year),
    part('getMonth', ({ month }) => month),
    part('getDayOfYear', ({ dayOfYear }) => dayOfYear),
    part('getDayOfMonth', ({ day }) => day - 1),
    part('getDate', ({ day }) => day),
    part('getDayOfWeek', ({ weekday }) => weekday),
    partOrDuration(
      'getHours',
      ({ hour }) => hour,
      (nanos) => nanos / 3_600_000_000_000n,
    ),
    partOrDuration(
      'getMinutes',
      ({ minute }) => minute,
      (nanos) => nanos / 60_000_000_000n,
    ),
    partOrDuration(
      'getSeconds',
      ({ second }) => second,
      (nanos) => nanos / 1_000_000_000n,
    ),
    partOrDuration(
      'getMilliseconds',
      ({ millisecond }) => millisecond,
      (nanos) => nanos / 1_000_000n,
    ),
    fn('optional.of(A): optional<A>', (value: Value) => new Optional(value), { dynamic }),
    fn('optional.none(): optional<A>', () => none, { dynamic }),
    fn('optional.ofNonZeroValue(A): optional<A>', (value: Value) => (zeroish(value) ? none : new Optional(value)), { dynamic }),
    fn('(optional<A>).hasValue(): bool', ({ value }: Optional) => value !== undefined),
    fn('(optional<A>).value(): A', ({ value }: Optional) => {
      if (value === undefined) throw new CelError('invalid-argument', 'optional.none() dereference');
      return value;
    }),
    fn('(optional<A>).or(optional<A>): optional<A>', (a: Optional, b: Optional) => (a.value === undefined ? b : a)),
    fn('(optional<A>).orValue(A): A', ({ value }: Optional, other: Value) => value ?? other),
    fn('(list<A>).first(): optional<A>', (list: ListValue) => optionalOf(itemsOf(list)[0])),
    fn('(list<A>).last(): optional<A>', (list: ListValue) => optionalOf(itemsOf(list).at(-1))),
    fn('optional.unwrap(list<optional<A>>): list<A>', unwrap),
    fn('(list<optional<A>>).unwrapOpt(): list<A>', unwrap),
  ],
};
