import { CelError, noSuchKey, noSuchOverload } from '../../values/cel-error.ts';
import { fn, traversal, type Library } from '../library.ts';
import { elementOf } from '../../values/access.ts';
import { compare, equal } from '../../values/equality.ts';
import {
  codePoints,
  Double,
  doubleOf,
  Duration,
  intOf,
  isList,
  isMap,
  itemsOf,
  kindOf,
  mapGet,
  mapSize,
  none,
  Optional,
  sizeOf,
  Timestamp,
  TypedList,
  Uint,
  uintOf,
  type ListValue,
  type MapValue,
  type Value,
} from '../../values/value.ts';

/** The maximum length of a list or string that an expression creates. */
export const maxResultSize = 3 * 1024 * 1024;
export const tooLong = () => new CelError('out-of-range', `result exceeds the limit of ${maxResultSize}`);

const isInt = (value: Value): value is number | bigint => kindOf(value) === 'int';
const asDouble = (value: Value): number | undefined =>
  value instanceof Double ? value.value : typeof value === 'number' && kindOf(value) === 'double' ? value : undefined;

interface Arithmetic {
  readonly small: (a: number, b: number) => number;
  readonly big: (a: bigint, b: bigint) => bigint;
}
const plus: Arithmetic = { small: (a, b) => a + b, big: (a, b) => a + b };
const minus: Arithmetic = { small: (a, b) => a - b, big: (a, b) => a - b };
const times: Arithmetic = { small: (a, b) => a * b, big: (a, b) => a * b };
const division = new CelError('division-by-zero', 'division by zero');
const modulus = new CelError('division-by-zero', 'modulus by zero');

/** Applies an arithmetic operator to two numbers of the same type; returns undefined if the operands are not two numbers of the same type. */
function arithmetic({ small, big }: Arithmetic, a: Value, b: Value): Value | undefined {
  if (isInt(a) && isInt(b)) {
    if (typeof a === 'number' && typeof b === 'number') {
      const result = small(a, b);
      if (Number.isSafeInteger(result)) return result === 0 ? 0 : result;
    }
    return intOf(big(BigInt(a), BigInt(b)));
  }
  if (a instanceof Uint && b instanceof Uint) return uintOf(big(a.value, b.value));
  const [x, y] = [asDouble(a), asDouble(b)];
  return x === undefined || y === undefined ? undefined : doubleOf(small(x, y));
}

function add(a: Value, b: Value): Value {
  if (typeof a === 'string' && typeof b === 'string') {
    if (a.length + b.length > maxResultSize) throw tooLong();
    return a + b;
  }
  const number = arithmetic(plus, a, b);
  if (number !== undefined) return number;
  if (isList(a) && isList(b)) {
    if (sizeOf(a) + sizeOf(b) > maxResultSize) throw tooLong();
    return a instanceof TypedList ? a.plus(itemsOf(b)) : [...a, ...itemsOf(b)];
  }
  if (a instanceof Timestamp && b instanceof Duration) return new Timestamp(a.nanos + b.nanos);
  if (a instanceof Duration && b instanceof Timestamp) return new Timestamp(a.nanos + b.nanos);
  if (a instanceof Duration && b instanceof Duration) return new Duration(a.nanos + b.nanos);
  if (a instanceof Uint8Array && b instanceof Uint8Array) {
    if (a.length + b.length > maxResultSize) throw tooLong();
    return Uint8Array.from([...a, ...b]);
  }
  throw noSuchOverload();
}

function subtract(a: Value, b: Value): Value {
  const number = arithmetic(minus, a, b);
  if (number !== undefined) return number;
  if (a instanceof Timestamp && b instanceof Timestamp) return new Duration(a.nanos - b.nanos);
  if (a instanceof Timestamp && b instanceof Duration) return new Timestamp(a.nanos - b.nanos);
  if (a instanceof Duration && b instanceof Duration) return new Duration(a.nanos - b.nanos);
  throw noSuchOverload();
}

function multiply(a: Value, b: Value): Value {
  const number = arithmetic(times, a, b);
  if (number === undefined) throw noSuchOverload();
  return number;
}

function divide(a: Value, b: Value): Value {
  if (isInt(a) && isInt(b)) {
    if (Number(b) === 0) throw division;
    return intOf(BigInt(a) / BigInt(b));
  }
  if (a instanceof Uint && b instanceof Uint) {
    if (b.value === 0n) throw division;
    return new Uint(a.value / b.value);
  }
  const [x, y] = [asDouble(a), asDouble(b)];
  if (x === undefined || y === undefined) throw noSuchOverload();
  return doubleOf(x / y);
}

function modulo(a: Value, b: Value): Value {
  if (isInt(a) && isInt(b)) {
    if (Number(b) === 0) throw modulus;
    return intOf(BigInt(a) % BigInt(b));
  }
  if (!(a instanceof Uint && b instanceof Uint)) throw noSuchOverload();
  if (b.value === 0n) throw modulus;
  return new Uint(a.value % b.value);
}

function negate(value: Value): Value {
  if (isInt(value)) return typeof value === 'number' && Number.isSafeInteger(value) ? 0 - value : intOf(-BigInt(value));
  if (value instanceof Duration) return new Duration(-value.nanos);
  const double = asDouble(value);
  if (double === undefined) throw noSuchOverload();
  return doubleOf(-double);
}

function contains(item: Value, of: Value): boolean {
  if (isList(of)) {
    const items = itemsOf(of);
    if (typeof item === 'string') return items.includes(item);
    return items.some((each) => equal(each, item));
  }
  if (!isMap(of)) throw noSuchOverload();
  return mapGet(of, item) !== undefined;
}

function index(operand: Value, at: Value): Value {
  if (operand instanceof Optional) {
    const found = operand.value === undefined ? undefined : elementOf(operand.value, at);
    return found === undefined ? none : new Optional(found);
  }
  const found = elementOf(operand, at);
  if (found !== undefined) return found;
  if (isList(operand)) throw new CelError('out-of-range', `index out of bounds: ${String(at)}`);
  throw noSuchKey(typeof at === 'object' && at !== null ? String((at as { value?: unknown }).value) : String(at));
}

function optionalIndex(operand: Value, at: Value): Optional {
  const from = operand instanceof Optional ? operand.value : operand;
  const found = from === undefined ? undefined : elementOf(from, at);
  return found === undefined ? none : new Optional(found);
}

function not(value: Value): boolean {
  if (typeof value !== 'boolean') throw noSuchOverload();
  return !value;
}

export function size(value: Value): number {
  if (typeof value === 'string') return codePoints(value);
  if (isList(value)) return sizeOf(value as ListValue);
  if (value instanceof Uint8Array) return value.length;
  if (isMap(value)) return mapSize(value as MapValue);
  throw noSuchOverload();
}

const dynamic = true;
const shorter = (a: number, b: number) => Math.max(1, traversal(Math.min(a, b)));
const ordered = ['bool', 'int', 'uint', 'double', 'string', 'bytes', 'timestamp', 'duration'];
const numeric = ['int', 'uint', 'double'];
const relation = (name: string, holds: (order: number) => boolean) =>
  fn(
    [
      ...ordered.map((type) => `${name}(${type}, ${type}): bool`),
      ...numeric.flatMap((a) => numeric.filter((b) => a !== b).map((b) => `${name}(${a}, ${b}): bool`)),
    ],
    (a: Value, b: Value) => {
      const order = compare(a, b);
      return order !== undefined && holds(order);
    },
    { cost: shorter, compares: true, dynamic },
  );
const each = (name: string, types: readonly string[]) => types.map((type) => `${name}(${type}, ${type}): ${type}`);

/** The operators of CEL, declared as functions. */
export const operators: Library = {
  name: 'operators',
  functions: [
    // planCall evaluates this operator lazily
    fn('_?_:_(bool, A, A): A', (condition: boolean, a: Value, b: Value) => (condition ? a : b), { dynamic }),
    fn('_==_(A, A): bool', (a: Value, b: Value) => equal(a, b), { cost: shorter, compares: true, dynamic }),
    fn('_!=_(A, A): bool', (a: Value, b: Value) => !equal(a, b), { cost: shorter, compares: true, dynamic }),
    relation('_<_', (order) => order < 0),
    relation('_<=_', (order) => order <= 0),
    relation('_>_', (order) => order > 0),
    relation('_>=_', (order) => order >= 0),
    fn('!_(bool): bool', not, { dynamic }),
    fn(
      [
        ...each('_+_', [...numeric, 'string', 'bytes', 'list<A>', 'duration']),
        '_+_(timestamp, duration): timestamp',
        '_+_(duration, timestamp): timestamp',
      ],
      add,
      { cost: (a, b) => Math.max(1, traversal(a + b)), dynamic },
    ),
    fn([...each('_-_', [...numeric, 'duration']), '_-_(timestamp, timestamp): duration', '_-_(timestamp, duration): timestamp'], subtract, {
      dynamic,
    }),
    fn(each('_*_', numeric), multiply, { dynamic }),
    fn(each('_/_', numeric), divide, { dynamic }),
    fn(each('_%_', ['int', 'uint']), modulo, { dynamic }),
    fn(['-_(int): int', '-_(double): double', '-_(duration): duration'], negate, { dynamic }),
    fn(['@in(A, list<A>): bool', '@in(A, map<A, B>): bool'], contains, { cost: (_, of) => Math.max(1, of), dynamic }),
    fn(
      [
        '_[_](list<A>, int): A',
        '_[_](map<A, B>, A): B',
        '_[_](optional<list<A>>, int): optional<A>',
        '_[_](optional<map<A, B>>, A): optional<B>',
      ],
      index,
      { dynamic },
    ),
    fn(
      [
        '_[?_](list<A>, int): optional<A>',
        '_[?_](map<A, B>, A): optional<B>',
        '_[?_](optional<list<A>>, int): optional<A>',
        '_[?_](optional<map<A, B>>, A): optional<B>',
      ],
      optionalIndex,
      { dynamic },
    ),
    fn(
      ['string', 'bytes', 'list<A>', 'map<A, B>'].flatMap((type) => [`size(${type}): int`, `(${type}).size(): int`]),
      size,
      { dynamic },
    ),
  ],
};
