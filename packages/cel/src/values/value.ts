import { CelError } from './cel-error.ts';

/** A value of type `int`: a number if it is a safe integer, otherwise a bigint. A number that is not an integer is a `double`. */
export type Int = number | bigint;
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Double
  | Uint
  | Timestamp
  | Duration
  | TypeValue
  | Optional
  | ListValue
  | MapValue
  | Opaque;
export type ListValue = readonly Value[] | TypedList;
export type MapValue = CelMap | FieldMap | JsonMap;
/** A JSON object, whose members are CEL values without conversion. */
export interface JsonMap {
  readonly [key: string]: Value | undefined;
}

/** A double with an integer value, such as `2.0`, which a JavaScript number cannot distinguish from an `int`. */
export class Double {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}
export class Uint {
  readonly value: bigint;
  constructor(value: bigint) {
    this.value = value;
  }
}
export class Timestamp {
  /** The time in nanoseconds since the Unix epoch. */
  readonly nanos: bigint;
  constructor(nanos: bigint) {
    if (nanos < minTimestamp || nanos > maxTimestamp) throw new CelError('overflow', 'timestamp overflow');
    this.nanos = nanos;
  }
}
export class Duration {
  readonly nanos: bigint;
  constructor(nanos: bigint) {
    if (nanos < minInt || nanos > maxInt) throw new CelError('overflow', 'duration overflow');
    this.nanos = nanos;
  }
}
export class TypeValue {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}
export class Optional {
  readonly value: Value | undefined;
  constructor(value: Value | undefined) {
    this.value = value;
  }
}
export const none = new Optional(undefined);

/** A value of a type that a library defines, such as a URL, a quantity or an authorizer. */
export abstract class Opaque {
  abstract readonly typeName: string;
  /** The size of the value, from which the cost of functions that read the value is computed. */
  get size(): number {
    return 1;
  }
  equals(other: Opaque): boolean {
    return this === other;
  }
}

/** A list with list type `set` or `map` in its schema. The order of the elements does not matter in comparisons. */
export class TypedList {
  readonly items: readonly Value[];
  /** The names of the key fields of a `map` list; undefined for a `set` list. */
  readonly keys: readonly string[] | undefined;
  readonly #of: (item: Value) => string;
  #index: Map<string, Value> | undefined;
  constructor(items: readonly Value[], identity: (item: Value) => string, keys: readonly string[] | undefined) {
    this.items = items;
    this.#of = identity;
    this.keys = keys;
  }
  get index(): ReadonlyMap<string, Value> {
    this.#index ??= new Map(this.items.map((item) => [this.#of(item), item]));
    return this.#index;
  }
  /** Returns true if `other` has the same elements in any order. `same` compares two elements. */
  equals(other: readonly Value[], same: (a: Value, b: Value) => boolean): boolean {
    if (other.length !== this.items.length) return false;
    const index = this.index;
    return other.every((item) => {
      const own = index.get(this.#of(item));
      return own !== undefined && same(own, item);
    });
  }
  /** Returns both lists concatenated. An element of `other` with the identity of an existing element replaces that element in place. */
  plus(other: readonly Value[]): TypedList {
    const merged = new Map(this.index);
    for (const item of other) merged.set(this.#of(item), item);
    return new TypedList([...merged.values()], this.#of, this.keys);
  }
}

/** The members of a struct or map, computed on access. */
export interface FieldSource {
  /** Returns the value of a field; undefined if the field is absent. */
  get(key: string): Value | undefined;
  keys(): readonly string[];
}
export class FieldMap {
  readonly source: FieldSource;
  readonly typeName: string;
  constructor(source: FieldSource, typeName = 'map') {
    this.source = source;
    this.typeName = typeName;
  }
}

/** A map that an expression creates, with keys of any valid type. */
export class CelMap {
  readonly entries = new Map<string | number | bigint | boolean, readonly [key: Value, value: Value]>();
  get(key: Value): Value | undefined {
    const at = mapKey(key);
    return at === undefined ? undefined : this.entries.get(at)?.[1];
  }
  set(key: Value, value: Value): void {
    const at = mapKey(key);
    if (at === undefined) throw new CelError('invalid-argument', `unsupported key type: ${typeNameOf(key)}`);
    this.entries.set(at, [key, value]);
  }
}

/** Returns the lookup key of a map key. Equal numbers of different types have the same lookup key. */
export function mapKey(key: Value): string | number | bigint | boolean | undefined {
  switch (typeof key) {
    case 'string':
    case 'boolean':
      return key;
    case 'number':
      return Number.isInteger(key) ? narrow(BigInt(key)) : undefined;
    case 'bigint':
      return narrow(key);
    default:
      if (key instanceof Uint) return narrow(key.value);
      if (key instanceof Double) return narrow(BigInt(key.value));
      return undefined;
  }
}

export const minInt = -(2n ** 63n);
export const maxInt = 2n ** 63n - 1n;
export const maxUint = 2n ** 64n - 1n;
const minTimestamp = -62_135_596_800n * 1_000_000_000n; // 0001-01-01
const maxTimestamp = BigInt(Date.UTC(9999, 11, 31, 23, 59, 59)) * 1_000_000n + 999_999_999n;

const narrow = (value: bigint): Int =>
  value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;

/** Converts a bigint to an `int` value. @throws CelError with code `overflow` if the value does not fit an int64 */
export function intOf(value: bigint): Int {
  if (value < minInt || value > maxInt) throw new CelError('overflow', 'integer overflow');
  return narrow(value);
}
/** Converts a bigint to a `uint` value. @throws CelError with code `overflow` if the value does not fit a uint64 */
export function uintOf(value: bigint): Uint {
  if (value < 0n || value > maxUint) throw new CelError('overflow', 'unsigned integer overflow');
  return new Uint(value);
}
export const doubleOf = (value: number): number | Double => (Number.isInteger(value) ? new Double(value) : value);

export type ValueKind =
  | 'null'
  | 'bool'
  | 'int'
  | 'uint'
  | 'double'
  | 'string'
  | 'bytes'
  | 'timestamp'
  | 'duration'
  | 'type'
  | 'optional'
  | 'list'
  | 'map'
  | 'opaque';

const maxIntNumber = 2 ** 63;

export function kindOf(value: Value | undefined): ValueKind {
  switch (typeof value) {
    case 'boolean':
      return 'bool';
    case 'number':
      return Number.isInteger(value) && value < maxIntNumber && value >= -maxIntNumber ? 'int' : 'double';
    case 'bigint':
      return 'int';
    case 'string':
      return 'string';
    case 'undefined':
      return 'null';
    default:
      break;
  }
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (value instanceof CelMap || value instanceof FieldMap) return 'map';
  if (value instanceof Double) return 'double';
  if (value instanceof TypedList) return 'list';
  if (value instanceof Opaque) return 'opaque';
  if (value instanceof Uint) return 'uint';
  if (value instanceof Timestamp) return 'timestamp';
  if (value instanceof Duration) return 'duration';
  if (value instanceof Uint8Array) return 'bytes';
  if (value instanceof Optional) return 'optional';
  if (value instanceof TypeValue) return 'type';
  return 'map';
}

export function typeNameOf(value: Value | undefined): string {
  const kind = kindOf(value);
  switch (kind) {
    case 'null':
      return 'null_type';
    case 'timestamp':
      return 'google.protobuf.Timestamp';
    case 'duration':
      return 'google.protobuf.Duration';
    case 'optional':
      return 'optional_type';
    case 'opaque':
      return (value as Opaque).typeName;
    case 'map':
      return value instanceof FieldMap ? value.typeName : 'map';
    default:
      return kind;
  }
}

export const isList = (value: Value | undefined): value is ListValue => Array.isArray(value) || value instanceof TypedList;
export const itemsOf = (value: ListValue): readonly Value[] => (value instanceof TypedList ? value.items : value);
export const isMap = (value: Value | undefined): value is MapValue => kindOf(value) === 'map';

/** Returns the value of a map key; undefined if the map does not contain the key. */
export function mapGet(value: MapValue, key: Value): Value | undefined {
  if (value instanceof CelMap) return value.get(key);
  if (typeof key !== 'string') return undefined;
  if (value instanceof FieldMap) return value.source.get(key);
  return Object.hasOwn(value, key) ? (value as JsonMap)[key] : undefined;
}
export function mapKeys(value: MapValue): readonly Value[] {
  if (value instanceof CelMap) return Array.from(value.entries.values(), ([key]) => key);
  if (value instanceof FieldMap) return value.source.keys();
  const keys = Object.keys(value);
  return keys.some((key) => (value as JsonMap)[key] === undefined) ? keys.filter((key) => (value as JsonMap)[key] !== undefined) : keys;
}
export const mapSize = (value: MapValue): number => (value instanceof CelMap ? value.entries.size : mapKeys(value).length);

/** Returns the numeric value for comparisons: a bigint if a double would lose digits; undefined if the value is not a number. */
export function numberOf(value: Value | undefined): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Double) return value.value;
  return value instanceof Uint ? value.value : undefined;
}

export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd800 && unit <= 0xdbff) {
      const next = text.charCodeAt(i + 1);
      if (next >= 0xdc00 && next <= 0xdfff) {
        count--;
        i++;
      }
    }
  }
  return count;
}

/** Returns the size of a value, from which the cost of a call is computed; 1 for scalars. */
export function sizeOf(value: Value | undefined): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.length;
  if (typeof value !== 'object' || value === null) return 1;
  if (value instanceof TypedList) return value.items.length;
  if (value instanceof Uint8Array) return value.length;
  if (value instanceof Opaque) return value.size;
  return isMap(value) ? mapSize(value) : 1;
}
