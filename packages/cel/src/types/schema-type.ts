import { stringifyExact } from '@oarlock/api/json/exact-json';
import { escapeName } from './escaping.ts';
import { constantSize, maxRequestBytes, type DeclaredSize } from './declared-size.ts';
import { parseDurationText, parseTimestampText } from '../values/time-text.ts';
import { bool, bytes, double, duration, dyn, int, list, map, string, timestamp, type ObjectType, type Type } from './type.ts';
import { doubleOf, FieldMap, TypedList, type FieldSource, type Value } from '../values/value.ts';

/** A structural schema, as in CustomResourceDefinitions and OpenAPI documents. */
export interface StructuralSchema {
  readonly type?: string;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, StructuralSchema>>;
  readonly additionalProperties?: boolean | StructuralSchema;
  readonly items?: StructuralSchema;
  readonly required?: readonly string[];
  readonly nullable?: boolean;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-embedded-resource'?: boolean;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
}

export interface SchemaType {
  readonly type: Type;
  /** Converts a JSON value lazily to the CEL value of the schema's type: set and map lists, times, doubles and escaped property names. */
  value(json: unknown): Value;
  /** The size from which the cost of expressions is estimated. */
  readonly size: DeclaredSize;
  /** The minimum number of bytes of one value in a request body, from which the maximum length of a list is estimated. */
  readonly minBytes: number;
}
export interface SchemaTypeOptions {
  /** The name of the root type in messages. */
  readonly name?: string;
  /** True for the root of an API object: expressions can read `apiVersion`, `kind`, `metadata.name` and `metadata.generateName`. */
  readonly resource?: boolean;
}

const metadata: StructuralSchema = { type: 'object', properties: { name: { type: 'string' }, generateName: { type: 'string' } } };
const asIs = (json: unknown): Value => (json ?? null) as Value;
/** A schema without a type. Expressions cannot read a field, list or map of such values, as upstream. */
const undeclared: SchemaType = { type: dyn, value: asIs, size: constantSize, minBytes: 1 };

/** Returns the CEL type of a schema's values; `undeclared` if the schema does not determine a type. */
export function typeOfSchema(schema: StructuralSchema, { name = 'object', resource = false }: SchemaTypeOptions = {}): SchemaType {
  if (schema['x-kubernetes-int-or-string'] === true) return { type: dyn, value: asIs, size: { max: maxTextSize(schema) }, minBytes: 1 };
  switch (schema.type) {
    case 'boolean':
      return { type: bool, value: asIs, size: constantSize, minBytes: 4 };
    case 'integer':
      return { type: int, value: asIs, size: constantSize, minBytes: 1 };
    case 'number':
      return {
        type: double,
        value: (json) => (typeof json === 'number' || typeof json === 'bigint' ? doubleOf(Number(json)) : asIs(json)),
        size: constantSize,
        minBytes: 1,
      };
    case 'string':
      return stringType(schema);
    case 'array':
      return schema.items === undefined ? undeclared : listType(schema, typeOfSchema(schema.items, { name: `${name}.@idx` }));
    case 'object':
      return objectType(schema, name, resource || schema['x-kubernetes-embedded-resource'] === true);
    default:
      return undeclared;
  }
}

/** Returns the maximum size of a string in bytes. A character of `maxLength` can have 4 bytes. */
function maxTextSize({ maxLength, enum: values }: StructuralSchema): number {
  if (maxLength !== undefined) return Math.max(0, maxLength) * 4;
  if (values === undefined || values.length === 0) return maxRequestBytes - 2;
  return Math.max(0, ...values.map((value) => (typeof value === 'string' ? Buffer.byteLength(value) : 0)));
}

/** The sizes of times and durations in JSON, with quotes. */
const maxTimeSize: DeclaredSize = { max: 32 };
const dateSize: DeclaredSize = { max: 12 };

function stringType(schema: StructuralSchema): SchemaType {
  const text = (parse: (text: string) => Value) => (json: unknown) => (typeof json === 'string' ? parse(json) : asIs(json));
  switch (schema.format) {
    case 'byte':
      return {
        type: bytes,
        value: text((encoded) => Uint8Array.from(Buffer.from(encoded, 'base64'))),
        size: { max: schema.maxLength === undefined ? maxRequestBytes - 2 : Math.max(0, schema.maxLength) },
        minBytes: 2,
      };
    case 'duration':
      return { type: duration, value: text(parseDurationText), size: maxTimeSize, minBytes: 3 };
    case 'date':
      return { type: timestamp, value: text((date) => parseTimestampText(`${date}T00:00:00Z`)), size: dateSize, minBytes: 12 };
    case 'date-time':
      return { type: timestamp, value: text(parseTimestampText), size: maxTimeSize, minBytes: 21 };
    default:
      return { type: string, value: asIs, size: { max: maxTextSize(schema) }, minBytes: 2 };
  }
}

function listType(schema: StructuralSchema, items: SchemaType): SchemaType {
  if (items === undeclared) return undeclared;
  const { maxItems } = schema;
  const size: DeclaredSize = {
    max: maxItems === undefined ? Math.floor((maxRequestBytes - 2) / (items.minBytes + 1)) : Math.max(0, maxItems),
    element: items.size,
  };
  const identity = identityOf(schema);
  const keys = schema['x-kubernetes-list-map-keys'];
  const convert = items.value === asIs ? undefined : items.value;
  if (identity === undefined && convert === undefined) return { type: list(items.type), value: asIs, size, minBytes: 2 };
  const value = (json: unknown): Value => {
    if (!Array.isArray(json)) return asIs(json);
    const elements = convert === undefined ? (json as readonly Value[]) : (json as readonly unknown[]).map(convert);
    return identity === undefined
      ? elements
      : new TypedList(elements, identity, schema['x-kubernetes-list-type'] === 'map' ? keys : undefined);
  };
  return { type: list(items.type), value, size, minBytes: 2 };
}

/**
 * Returns a function that computes the identity of a list element (x-kubernetes-list-type `set` or `map`); undefined for lists whose
 * elements are identified by index.
 */
function identityOf(schema: StructuralSchema): ((item: Value) => string) | undefined {
  const fields = schema['x-kubernetes-list-map-keys'];
  switch (schema['x-kubernetes-list-type']) {
    case 'set':
      return (item) => `${typeof item} ${stringifyExact(item)}`;
    case 'map':
      return (item) => stringifyExact((fields ?? []).map((field) => fieldIn(item, field)));
    default:
      return undefined;
  }
}
function fieldIn(item: Value, field: string): unknown {
  if (item instanceof FieldMap) return item.source.get(escapeName(field) ?? field) ?? null;
  return typeof item === 'object' && item !== null && Object.hasOwn(item, field) ? (item as Record<string, unknown>)[field] : null;
}

interface Field {
  readonly property: string;
  readonly of: SchemaType;
}

function objectType(schema: StructuralSchema, name: string, resource: boolean): SchemaType {
  const { additionalProperties } = schema;
  if (typeof additionalProperties === 'object') return mapType(schema, typeOfSchema(additionalProperties, { name: `${name}.@elem` }));
  const properties: Readonly<Record<string, StructuralSchema>> = resource
    ? { ...schema.properties, apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata }
    : (schema.properties ?? {});
  const fields = new Map<string, Field>();
  let minBytes = 2;
  for (const property of Object.keys(properties)) {
    const escaped = escapeName(property);
    const of = typeOfSchema(properties[property] ?? {}, { name: `${name}.${escaped ?? property}` });
    if (of === undeclared) continue;
    if (schema.required?.includes(property) && properties[property]?.default === undefined) minBytes += property.length + 4 + of.minBytes;
    if (escaped !== undefined) fields.set(escaped, { property, of });
  }
  const type: ObjectType = { kind: 'object', name, field: (field) => fields.get(field)?.of.type, fields: () => fields.keys() };
  const size: DeclaredSize = { max: 0, field: (field) => fields.get(field)?.of.size };
  const plain = [...fields].every(([escaped, { property, of }]) => escaped === property && of.value === asIs);
  if (plain) return { type, value: asIs, size, minBytes };
  const names = new Map([...fields].map(([escaped, { property }]) => [property, escaped]));
  const value = (json: unknown): Value =>
    typeof json === 'object' && json !== null && !Array.isArray(json)
      ? new FieldMap(new Struct(json as Readonly<Record<string, unknown>>, fields, names), name)
      : asIs(json);
  return { type, value, size, minBytes };
}

function mapType(schema: StructuralSchema, values: SchemaType): SchemaType {
  if (values === undeclared) return undeclared;
  const { maxProperties } = schema;
  const size: DeclaredSize = {
    max: maxProperties === undefined ? Math.floor((maxRequestBytes - 2) / (values.minBytes + 6)) : Math.max(0, maxProperties),
    // keys have no size upstream, although they can be as long as a request body
    key: constantSize,
    element: values.size,
  };
  const type = map(string, values.type);
  if (values.value === asIs) return { type, value: asIs, size, minBytes: 2 };
  const value = (json: unknown): Value =>
    typeof json === 'object' && json !== null && !Array.isArray(json)
      ? new FieldMap(new Entries(json as Readonly<Record<string, unknown>>, values.value))
      : asIs(json);
  return { type, value, size, minBytes: 2 };
}

class Struct implements FieldSource {
  readonly #json: Readonly<Record<string, unknown>>;
  readonly #fields: ReadonlyMap<string, Field>;
  readonly #names: ReadonlyMap<string, string>;
  constructor(json: Readonly<Record<string, unknown>>, fields: ReadonlyMap<string, Field>, names: ReadonlyMap<string, string>) {
    this.#json = json;
    this.#fields = fields;
    this.#names = names;
  }
  get(key: string): Value | undefined {
    const field = this.#fields.get(key);
    const property = field?.property ?? key;
    const json = Object.hasOwn(this.#json, property) ? this.#json[property] : undefined;
    return json === undefined ? undefined : field === undefined ? asIs(json) : field.of.value(json);
  }
  keys(): readonly string[] {
    return Object.keys(this.#json)
      .filter((property) => this.#json[property] !== undefined)
      .map((property) => this.#names.get(property) ?? property);
  }
}

class Entries implements FieldSource {
  readonly #json: Readonly<Record<string, unknown>>;
  readonly #value: (json: unknown) => Value;
  constructor(json: Readonly<Record<string, unknown>>, value: (json: unknown) => Value) {
    this.#json = json;
    this.#value = value;
  }
  get(key: string): Value | undefined {
    const json = Object.hasOwn(this.#json, key) ? this.#json[key] : undefined;
    return json === undefined ? undefined : this.#value(json);
  }
  keys(): readonly string[] {
    return Object.keys(this.#json).filter((key) => this.#json[key] !== undefined);
  }
}
