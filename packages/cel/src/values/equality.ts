import { CelError, noSuchOverload } from './cel-error.ts';
import {
  Duration,
  isList,
  isMap,
  itemsOf,
  mapGet,
  mapKeys,
  mapSize,
  numberOf,
  Opaque,
  Optional,
  Timestamp,
  TypedList,
  TypeValue,
  type ListValue,
  type MapValue,
  type Value,
} from './value.ts';

/**
 * The maximum number of values that one comparison visits. A value whose parts are shared can be small in memory and still expand
 * exponentially.
 */
const maxComparisons = 1_000_000;
interface Allowance {
  left: number;
}

/**
 * Returns true if two values are equal. Values of different types are not equal, but numbers of all types compare by value.
 * @throws CelError with code `budget` if the comparison visits more than `maxComparisons` values
 */
export function equal(a: Value | undefined, b: Value | undefined): boolean {
  if (a === b) return !Number.isNaN(a);
  if (typeof a === 'string' || typeof b === 'string' || typeof a === 'boolean' || typeof b === 'boolean') return false;
  return equalWithin(a, b, { left: maxComparisons });
}

function equalWithin(a: Value | undefined, b: Value | undefined, allowance: Allowance): boolean {
  if (a === b) return !Number.isNaN(a);
  if (--allowance.left < 0) throw new CelError('budget', 'operation cancelled: actual cost limit exceeded');
  if (a === null || a === undefined || b === null || b === undefined) return (a ?? null) === (b ?? null);
  const [x, y] = [numberOf(a), numberOf(b)];
  // oxlint-disable-next-line eqeqeq -- bigint and number
  if (x !== undefined || y !== undefined) return x !== undefined && y !== undefined && x == y;
  if (typeof a !== 'object' || typeof b !== 'object') return false;
  if (isList(a)) return isList(b) && listEqual(a, b, allowance);
  if (a instanceof Timestamp) return b instanceof Timestamp && a.nanos === b.nanos;
  if (a instanceof Duration) return b instanceof Duration && a.nanos === b.nanos;
  if (a instanceof TypeValue) return b instanceof TypeValue && a.name === b.name;
  if (a instanceof Opaque) return b instanceof Opaque && a.typeName === b.typeName && a.equals(b);
  if (a instanceof Uint8Array) return b instanceof Uint8Array && compareBytes(a, b) === 0;
  if (a instanceof Optional) {
    if (!(b instanceof Optional)) return false;
    return a.value === undefined || b.value === undefined ? a.value === b.value : equalWithin(a.value, b.value, allowance);
  }
  return isMap(a) && isMap(b) && mapEqual(a, b, allowance);
}

const fresh = (a: Value, b: Value) => equalWithin(a, b, { left: maxComparisons });

function listEqual(a: ListValue, b: ListValue, allowance: Allowance): boolean {
  if (a instanceof TypedList) return a.equals(itemsOf(b), fresh);
  if (b instanceof TypedList) return b.equals(a, fresh);
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!equalWithin(a[i], b[i], allowance)) return false;
  return true;
}

function mapEqual(a: MapValue, b: MapValue, allowance: Allowance): boolean {
  const keys = mapKeys(a);
  if (keys.length !== mapSize(b)) return false;
  return keys.every((key) => {
    const other = mapGet(b, key);
    return other !== undefined && equalWithin(mapGet(a, key), other, allowance);
  });
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

/** Compares strings by code points, whose order differs from the order of UTF-16 units. */
export function compareStrings(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    const high = x >= 0xd800 && x <= 0xdfff;
    if (high !== (y >= 0xd800 && y <= 0xdfff)) return high ? 1 : -1;
    return x < y ? -1 : 1;
  }
  return a.length - b.length;
}

/**
 * Returns a negative number, 0 or a positive number as `a` is less than, equal to or greater than `b`; undefined if the values have no
 * order (NaN).
 * @throws CelError with code `no-such-overload` if the types cannot be compared
 */
export function compare(a: Value, b: Value): number | undefined {
  if (typeof a === 'string' && typeof b === 'string') return compareStrings(a, b);
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : Number.isNaN(x) || Number.isNaN(y) ? undefined : 0;
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if ((a instanceof Timestamp && b instanceof Timestamp) || (a instanceof Duration && b instanceof Duration))
    return a.nanos < b.nanos ? -1 : a.nanos > b.nanos ? 1 : 0;
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compareBytes(a, b);
  throw noSuchOverload();
}
