import { copyFields, withoutFields } from '../json/copy-fields.ts';
import { goKind } from '../json/syntax-error.ts';
import { isObject, safeKey, type MutableObject } from '../json/json.ts';
import { ParseError } from '../values/parse-error.ts';
import { parseQuantity } from '../values/quantity.ts';
import type { Schema } from './schema.ts';
import { badRequest } from '../status.ts';
import { canonicalMicroTime, canonicalTime } from '../values/time.ts';

/** Maximum nesting of a value. Deeper values are rejected, because functions on objects recurse. */
export const maxDepth = 100;

/** Thrown for a value that its Go type cannot hold. `message` is Go's. */
export class UnmarshalTypeError extends Error {
  override readonly name = 'TypeMismatch';
}

/**
 * Returns the value as decoding into Kubernetes' Go types would: without unknown fields, nulls and empty omitempty fields, with quantities and
 * times in canonical form. Does not change its argument; returns it if nothing changes.
 * @param known a value that conforms to the schema. Frozen parts that the value shares with it, at the same place, are not visited
 * @throws UnmarshalTypeError for a value of the wrong type, with Go's message.
 * @throws StatusError BadRequest for values that nest more than 100 deep.
 */
export function conformToSchema<T>(schema: Schema, value: T, known?: unknown): T {
  return new SchemaWalk('json', known).visit(schema, value, schema, 0) as T;
}

/**
 * As `conformToSchema`, but with the messages and integers of apimachinery's unstructured converter, which decodes results of strategic merge patches.
 * @throws UnmarshalTypeError for a value of the wrong type
 */
export function conformUnstructured<T>(schema: Schema, value: T, known?: unknown): T {
  return new SchemaWalk('converter', known).visit(schema, value, schema, 0) as T;
}

/** Returns the value as `conformToSchema` does, but leaves values of the wrong type unchanged. */
export function conformLeniently<T>(schema: Schema, value: T): T {
  return new SchemaWalk('lenient').visit(schema, value, schema, 0) as T;
}

/** Validates a JSON value without a schema. @throws StatusError BadRequest if the value nests more than 100 deep or has the key `__proto__` */
export function checkJson(value: unknown, depth = 0): void {
  if (typeof value !== 'object' || value === null) return;
  if (depth >= maxDepth) throw badRequest('json: exceeded max depth');
  if (Array.isArray(value)) for (const item of value as unknown[]) checkJson(item, depth + 1);
  else for (const key of Object.keys(value)) checkJson((value as MutableObject)[safeKey(key)], depth + 1);
}

const int32 = [-(2 ** 31), 2 ** 31 - 1] as const;
const int64 = [-(2 ** 63), 2 ** 63] as const;
const plainTime = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Whose errors a walk reports: encoding/json's, those of apimachinery's unstructured converter, or none. */
type Decoder = 'json' | 'converter' | 'lenient';

class SchemaWalk {
  readonly #decoder: Decoder;
  /** Names of the fields on the path, without list indices: Go's notation of the position of a type mismatch. */
  readonly #path: string[] = [];
  /** The part of the known value at the place that is visited; undefined if there is none. */
  #known: unknown;
  constructor(decoder: Decoder, known?: unknown) {
    this.#decoder = decoder;
    this.#known = known;
  }

  /** Conforms one value. `struct` is the schema of the innermost struct that contains the value. */
  visit(schema: Schema, value: unknown, struct: Schema, depth: number): unknown {
    if (depth > maxDepth) throw badRequest('json: exceeded max depth');
    // only a frozen part cannot have changed since it was checked
    if (value === this.#known && typeof value === 'object' && Object.isFrozen(value)) return value;
    switch (schema.type) {
      case 'any':
        checkJson(value, depth);
        return value;
      case 'object': {
        if (!isObject(value)) return this.#mismatch(schema, value, goKind(value), struct);
        return schema.properties === undefined
          ? this.#map(schema, value, struct, depth)
          : this.#struct(schema, schema.properties, value, depth);
      }
      case 'array': {
        if (!Array.isArray(value)) return this.#mismatch(schema, value, goKind(value), struct);
        return schema.items === undefined ? value : this.#list(schema.items, value, struct, depth);
      }
      case 'integer': {
        if (typeof value === 'bigint') return this.visit(schema, Number(value), struct, depth);
        if (typeof value !== 'number') return this.#mismatch(schema, value, goKind(value), struct);
        if (this.#decoder === 'converter' && Number.isInteger(value)) return wrapInteger(value, schema.format === 'int32' ? 32 : 64);
        const [low, high] = schema.format === 'int32' ? int32 : int64;
        return Number.isInteger(value) && value >= low && value <= high ? value : this.#mismatch(schema, value, `number ${value}`, struct);
      }
      case 'number':
        return typeof value === 'number'
          ? value
          : typeof value === 'bigint'
            ? Number(value)
            : this.#mismatch(schema, value, goKind(value), struct);
      case 'boolean':
        return typeof value === 'boolean' ? value : this.#mismatch(schema, value, goKind(value), struct);
      case 'string':
        return this.#string(schema, value, struct);
    }
  }

  #mismatch(schema: Schema, value: unknown, what: string, struct: Schema): unknown {
    if (this.#decoder === 'lenient') return value;
    if (this.#decoder === 'converter') throw new UnmarshalTypeError(converterMessage(schema, value));
    const place =
      this.#path.length === 0
        ? 'value'
        : `struct field ${struct.name?.slice(struct.name.lastIndexOf('.') + 1) ?? ''}.${this.#path.join('.')}`;
    throw new UnmarshalTypeError(`json: cannot unmarshal ${what} into Go ${place} of type ${goType(schema)}`);
  }
  #reject(message: string, value: unknown): unknown {
    if (this.#decoder === 'lenient') return value;
    throw new UnmarshalTypeError(message);
  }

  #struct(schema: Schema, properties: ReadonlyMap<string, Schema>, value: Readonly<Record<string, unknown>>, depth: number): unknown {
    let changed: MutableObject | undefined;
    let dropped: Set<string> | undefined;
    const known = this.#known;
    for (const key of Object.keys(value)) {
      const property = properties.get(key);
      const before = value[key];
      if (property === undefined || before === null || before === undefined) {
        (dropped ??= new Set()).add(key);
        continue;
      }
      this.#path.push(key);
      this.#known = memberOf(known, key);
      const after = this.visit(property, before, schema, depth + 1);
      this.#path.pop();
      if (schema.omitsZero?.has(key) === true && isZero(after)) (dropped ??= new Set()).add(key);
      else if (after !== before) (changed ??= copyFields(value))[key] = after;
    }
    const result = changed ?? value;
    return dropped === undefined ? result : withoutFields(result, dropped);
  }

  #map(schema: Schema, value: Readonly<Record<string, unknown>>, struct: Schema, depth: number): unknown {
    const values = schema.additionalProperties;
    if (values === undefined) return value;
    let changed: MutableObject | undefined;
    const known = this.#known;
    for (const key of Object.keys(value)) {
      const before = value[safeKey(key)];
      this.#known = memberOf(known, key);
      const after = before === null ? zeroOf(values) : this.visit(values, before, struct, depth + 1);
      if (after !== before) (changed ??= copyFields(value))[key] = after;
    }
    return changed ?? value;
  }

  #list(items: Schema, value: readonly unknown[], struct: Schema, depth: number): unknown {
    let changed: unknown[] | undefined;
    const known = Array.isArray(this.#known) ? (this.#known as readonly unknown[]) : undefined;
    for (let i = 0; i < value.length; i++) {
      const before = value[i];
      this.#known = known?.[i];
      const after = before === null ? zeroOf(items) : this.visit(items, before, struct, depth + 1);
      if (after !== before) (changed ??= [...value])[i] = after;
    }
    return changed ?? value;
  }

  #string(schema: Schema, value: unknown, struct: Schema): unknown {
    if (schema.format === 'quantity') return this.#quantity(value);
    if (schema.format === 'int-or-string' && typeof value === 'number') {
      return Number.isInteger(value) && value >= int32[0] && value <= int32[1]
        ? value
        : this.#mismatch({ type: 'integer', format: 'int32' }, value, `number ${value}`, struct);
    }
    if (typeof value !== 'string') return this.#mismatch(schema, value, goKind(value), struct);
    switch (schema.format) {
      case 'date-time': {
        return plainTime.test(value) ? value : (canonicalTime(value) ?? this.#reject(badTime(value, '2006-01-02T15:04:05Z07:00'), value));
      }
      case 'micro-time':
        return canonicalMicroTime(value) ?? this.#reject(badTime(value, '2006-01-02T15:04:05.000000Z07:00'), value);
      case 'byte':
        return this.#bytes(value);
      default:
        return value;
    }
  }

  #quantity(value: unknown): unknown {
    if (typeof value !== 'string' && typeof value !== 'number')
      return this.#reject("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", value);
    try {
      return parseQuantity(value).toString();
    } catch (error) {
      if (error instanceof ParseError) return this.#reject(error.message, value);
      throw error;
    }
  }

  #bytes(value: string): unknown {
    // Go's base64 decoder skips line breaks.
    const text = value.includes('\n') || value.includes('\r') ? value.replace(/[\r\n]/g, '') : value;
    if (text.length % 4 === 0 && base64.test(text)) return text;
    const bad = text.search(/[^A-Za-z0-9+/]/);
    return this.#reject(`illegal base64 data at input byte ${bad < 0 ? text.length : bad}`, value);
  }
}

const memberOf = (known: unknown, key: string): unknown => (isObject(known) ? known[key] : undefined);

/** Returns true for '', 0, false, [] and {}. */
function isZero(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === '' || value === 0 || value === false;
  if (Array.isArray(value)) return value.length === 0;
  for (const _ in value) return false;
  return true;
}

/** Returns the integer as a conversion of Go stores it in the number of bits. */
function wrapInteger(value: number, bits: 32 | 64): number {
  return Number.isSafeInteger(value) && (bits === 64 || (value >= int32[0] && value <= int32[1]))
    ? value
    : Number(BigInt.asIntN(bits, BigInt(value)));
}

/** Returns the error of the unstructured converter for a value that the Go type of the schema cannot hold. */
function converterMessage(schema: Schema, value: unknown): string {
  const kind = goKind(value);
  const from =
    kind === 'number'
      ? Number.isInteger(Number(value))
        ? 'int64'
        : 'float64'
      : kind === 'array'
        ? 'slice'
        : kind === 'object'
          ? 'map'
          : kind;
  const to = goType(schema);
  if (schema.type === 'object')
    return schema.properties === undefined ? `cannot restore map from ${from}` : `cannot restore struct from: ${from}`;
  if (schema.type === 'array' || schema.format === 'byte') return `cannot restore slice from ${from}`;
  // types with a JSON unmarshaler of their own
  if (schema.format === 'int-or-string') return `json: cannot unmarshal ${kind} into Go value of type int32`;
  if (schema.format === 'date-time' || schema.format === 'micro-time') return `json: cannot unmarshal ${kind} into Go value of type string`;
  const isConvertible = schema.type === 'string' ? from === 'int64' : schema.type === 'integer' && from === 'float64';
  return isConvertible ? `cannot convert ${from} to ${to}` : `unrecognized type: ${to}`;
}

const badTime = (value: string, layout: string) =>
  `parsing time ${JSON.stringify(value)} as ${JSON.stringify(layout)}: cannot parse ${JSON.stringify(value)} as "2006"`;

/** Returns the zero value that Go stores for a null in a list or map. */
function zeroOf(schema: Schema): unknown {
  switch (schema.type) {
    case 'object':
      return {};
    case 'array':
      return [];
    case 'string':
      return schema.format === 'quantity'
        ? '0'
        : schema.format === 'int-or-string'
          ? 0
          : schema.format === 'date-time' || schema.format === 'micro-time'
            ? null
            : '';
    case 'integer':
    case 'number':
      return 0;
    case 'boolean':
      return false;
    case 'any':
      return null;
  }
}

function goType(schema: Schema): string {
  switch (schema.type) {
    case 'object': {
      if (schema.name !== undefined) return schema.name.slice(schema.name.indexOf('/') + 1);
      return `map[string]${schema.additionalProperties === undefined ? 'interface {}' : goType(schema.additionalProperties)}`;
    }
    case 'array':
      return `[]${schema.items === undefined ? 'interface {}' : goType(schema.items)}`;
    case 'integer':
      return schema.format ?? 'int64';
    case 'number':
      return 'float64';
    case 'boolean':
      return 'bool';
    case 'string':
      return schema.format === 'byte' ? '[]uint8' : 'string';
    case 'any':
      return 'interface {}';
  }
}
