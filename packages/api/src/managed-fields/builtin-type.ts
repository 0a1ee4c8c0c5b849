import { definitionOf, type Schema } from '../schema/schema.ts';
import { atomicType, type Field, type FieldType, type ListType, type MapType } from './field-type.ts';
import { isNullField } from '../schema/non-omitted-fields.ts';
import { isGoStruct } from './internal/go-structs.ts';

/** The field types of built-in kinds for server-side apply, which are read from the schema tables on first use. */
export class BuiltinTypes {
  readonly #types = new WeakMap<Schema, FieldType>();

  of(schema: Schema): FieldType {
    let type = this.#types.get(schema);
    if (type === undefined) this.#types.set(schema, (type = this.#read(schema)));
    return type;
  }

  /** Returns the field type of `metadata`, which is equal for all kinds. */
  objectMeta(): FieldType {
    const schema = definitionOf('meta/v1.ObjectMeta');
    if (schema === undefined) throw new Error('the schema table has no ObjectMeta');
    return this.of(schema);
  }

  #read(schema: Schema): FieldType {
    switch (schema.type) {
      case 'any':
        return atomicType;
      case 'string':
        return { scalar: schema.format === 'quantity' || schema.format === 'int-or-string' ? 'untyped' : 'string' };
      case 'integer':
      case 'number':
        return { scalar: 'number' };
      case 'boolean':
        return { scalar: 'boolean' };
      case 'array':
        return { list: new SchemaList(schema, this) };
      case 'object':
        return schema.properties === undefined && schema.additionalProperties === undefined
          ? atomicType
          : { map: new SchemaMap(schema, this) };
    }
  }
}

class SchemaList implements ListType {
  readonly relation: ListType['relation'];
  readonly keys: readonly string[];
  readonly #schema: Schema;
  readonly #types: BuiltinTypes;
  constructor(schema: Schema, types: BuiltinTypes) {
    this.#schema = schema;
    this.#types = types;
    this.relation = schema.listType ?? 'atomic';
    this.keys = [...(schema.listMapKeys ?? [])].sort();
  }
  get items(): FieldType {
    return this.#schema.items === undefined ? atomicType : this.#types.of(this.#schema.items);
  }
}

/** A struct type whose fields are read on first use, because types can be recursive. */
class SchemaMap implements MapType {
  readonly atomic: boolean;
  readonly #schema: Schema;
  readonly #types: BuiltinTypes;
  #fields: ReadonlyMap<string, Field> | undefined;
  #standing: readonly Field[] | undefined;
  constructor(schema: Schema, types: BuiltinTypes) {
    this.#schema = schema;
    this.#types = types;
    this.atomic = schema.mapType === 'atomic';
  }
  get values(): FieldType | undefined {
    return this.#schema.additionalProperties && this.#types.of(this.#schema.additionalProperties);
  }
  get fields(): ReadonlyMap<string, Field> {
    this.#fields ??= new Map(
      [...(this.#schema.properties ?? [])].map(
        ([name, schema]) => [name, new SchemaField(name, schema, this.#schema, this.#types)] as const,
      ),
    );
    return this.#fields;
  }
  get standing(): readonly Field[] {
    this.#standing ??= [...this.fields.values()].filter(({ standing }) => standing !== undefined);
    return this.#standing;
  }
}

class SchemaField implements Field {
  readonly name: string;
  readonly element: string;
  readonly standing: unknown;
  readonly omitsZero: boolean;
  readonly keyDefault: unknown;
  readonly #schema: Schema;
  readonly #types: BuiltinTypes;
  #type: FieldType | undefined;

  constructor(name: string, schema: Schema, struct: Schema, types: BuiltinTypes) {
    const owner = struct.name?.slice(struct.name.lastIndexOf('.') + 1) ?? '';
    const required = struct.required?.includes(name) === true;
    const isStruct = schema.type === 'object' && schema.properties !== undefined;
    this.name = name;
    this.element = `f:${name}`;
    this.#schema = schema;
    this.#types = types;
    if (isStruct) this.standing = isGoStruct(owner, name) ? emptyStruct : required ? null : undefined;
    else this.standing = required ? zeroOf(schema) : isNullField(struct, name) ? null : undefined;
    this.omitsZero = struct.omitsZero?.has(name) === true;
    this.keyDefault = keyDefaults[`${owner}.${name}`];
  }
  get type(): FieldType {
    this.#type ??= this.#types.of(this.#schema);
    return this.#type;
  }
}

/** The default values of list map keys, for items that omit the key. */
const keyDefaults: Readonly<Record<string, string>> = {
  'ContainerPort.protocol': 'TCP',
  'ServicePort.protocol': 'TCP',
  'LocalObjectReference.name': '',
};
const emptyStruct = Object.freeze({});

function zeroOf({ type, format }: Schema): unknown {
  if (type === 'integer' || type === 'number') return 0;
  if (type === 'boolean') return false;
  if (type === 'string')
    return format === 'date-time' || format === 'micro-time'
      ? null
      : format === 'int-or-string'
        ? 0
        : format === 'quantity'
          ? '0'
          : format === 'byte'
            ? null
            : '';
  return null;
}
