import { schemaTable } from '../generated/schema-table.ts';
import type { GroupVersionKind } from '../kinds.ts';
import { keepsZero } from './zero-values.ts';

export type SchemaType = 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean' | 'any';
/** `raw`: any JSON, preserved as received. `quantity` and `int-or-string` also accept numbers. */
export type SchemaFormat = 'int32' | 'int64' | 'double' | 'byte' | 'date-time' | 'micro-time' | 'quantity' | 'int-or-string' | 'raw';

/** The shape of one value. References are resolved on first use and shared: each definition has one schema object. */
export interface Schema {
  /** The definition, such as `apps/v1.DeploymentSpec`, `core/v1.Pod`, `meta/v1.ObjectMeta`; absent for plain values, lists and maps. */
  readonly name?: string | undefined;
  readonly type: SchemaType;
  readonly format?: SchemaFormat | undefined;
  /** Present on structs, also on those without properties. Maps have `additionalProperties` instead. */
  readonly properties?: ReadonlyMap<string, Schema> | undefined;
  readonly additionalProperties?: Schema | undefined;
  readonly items?: Schema | undefined;
  readonly required?: readonly string[] | undefined;
  /** Properties with `omitempty`: omitted if they are '', 0, false, [] or {}. */
  readonly omitsZero?: ReadonlySet<string> | undefined;
  readonly listType?: 'atomic' | 'set' | 'map' | undefined;
  readonly listMapKeys?: readonly string[] | undefined;
  readonly mapType?: 'atomic' | 'granular' | undefined;
  readonly patchStrategy?: readonly PatchStrategy[] | undefined;
  readonly patchMergeKey?: string | undefined;
}
export type PatchStrategy = 'merge' | 'replace' | 'retainKeys';

type Rows = Readonly<Record<string, Readonly<Record<string, string>>>>;
interface Body {
  readonly properties: ReadonlyMap<string, Schema>;
  readonly required: readonly string[];
  readonly omitsZero: ReadonlySet<string>;
}
type Attributes = Pick<Schema, 'listType' | 'listMapKeys' | 'mapType' | 'patchStrategy' | 'patchMergeKey'>;

/** A struct whose properties are read from the table on first use. */
class Definition implements Schema {
  readonly name: string;
  readonly type = 'object';
  readonly mapType: 'atomic' | 'granular' | undefined;
  readonly #scope: string;
  readonly #row: Readonly<Record<string, string>>;
  #body: Body | undefined;

  constructor(name: string, scope: string, row: Readonly<Record<string, string>>) {
    this.name = name;
    this.#scope = scope;
    this.#row = row;
    this.mapType = parseAttributes((row[''] ?? '').split(' ')).mapType;
  }

  get #parsed(): Body {
    if (this.#body === undefined) {
      const properties = new Map<string, Schema>();
      const required: string[] = [];
      const omitsZero = new Set<string>();
      for (const key of Object.keys(this.#row)) {
        if (key === '') continue;
        const name = key.endsWith('!') ? key.slice(0, -1) : key;
        if (name !== key) required.push(name);
        const property = parseType(this.#row[key] ?? 'any', this.#scope);
        properties.set(name, property);
        if (hasZero(property) && !keepsZero(this.name, name, name !== key)) omitsZero.add(name);
      }
      this.#body = { properties, required, omitsZero };
    }
    return this.#body;
  }
  get properties() {
    return this.#parsed.properties;
  }
  get required() {
    return this.#parsed.required;
  }
  get omitsZero() {
    return this.#parsed.omitsZero;
  }
}

/** A reference to a struct from a field with attributes of its own, such as `patch=retainKeys`. */
class FieldSchema implements Schema {
  readonly type = 'object';
  readonly #definition: Schema;
  readonly mapType: 'atomic' | 'granular' | undefined;
  readonly patchStrategy: readonly PatchStrategy[] | undefined;
  constructor(definition: Schema, attributes: Attributes) {
    this.#definition = definition;
    this.mapType = attributes.mapType ?? definition.mapType;
    this.patchStrategy = attributes.patchStrategy;
  }
  get name() {
    return this.#definition.name;
  }
  get properties() {
    return this.#definition.properties;
  }
  get required() {
    return this.#definition.required;
  }
  get omitsZero() {
    return this.#definition.omitsZero;
  }
}

/** Formats that are structs in Go, which `omitempty` does not omit. */
const structs: ReadonlySet<string> = new Set(['quantity', 'int-or-string', 'date-time', 'micro-time']);
const hasZero = ({ type, format, additionalProperties }: Schema): boolean =>
  type === 'object' ? additionalProperties !== undefined : type !== 'any' && (format === undefined || !structs.has(format));

const scalars: Readonly<Record<string, Schema>> = {
  string: { type: 'string' },
  bytes: { type: 'string', format: 'byte' },
  bool: { type: 'boolean' },
  int32: { type: 'integer', format: 'int32' },
  int64: { type: 'integer', format: 'int64' },
  double: { type: 'number', format: 'double' },
  time: { type: 'string', format: 'date-time' },
  'micro-time': { type: 'string', format: 'micro-time' },
  quantity: { type: 'string', format: 'quantity' },
  'int-or-string': { type: 'string', format: 'int-or-string' },
  any: { type: 'any', format: 'raw' },
};

const tables = new Map<string, Rows>();
const definitions = new Map<string, Schema>();

function tableOf(scope: string): Rows | undefined {
  let table = tables.get(scope);
  if (table === undefined) {
    const text = Object.hasOwn(schemaTable, scope) ? schemaTable[scope] : undefined;
    if (text === undefined) return undefined;
    table = JSON.parse(text) as Rows;
    tables.set(scope, table);
  }
  return table;
}

/** Returns the schema of a definition by its id (`core/v1.PodSpec`), the value of `Schema.name`. */
export function definitionOf(id: string): Schema | undefined {
  const known = definitions.get(id);
  if (known !== undefined) return known;
  const dot = id.lastIndexOf('.');
  const [scope, name] = [id.slice(0, dot), id.slice(dot + 1)];
  const table = tableOf(scope);
  const row = table !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
  if (row === undefined) return undefined;
  const definition = new Definition(id, scope, row);
  definitions.set(id, definition);
  return definition;
}

/** The schema of a built-in kind. Kinds of apimachinery (DeleteOptions, PatchOptions, Status, ...) are found in every group. */
export function schemaOf({ group, version, kind }: GroupVersionKind): Schema | undefined {
  return definitionOf(`${group === '' ? 'core' : group}/${version}.${kind}`) ?? definitionOf(`meta/v1.${kind}`);
}

function parseType(text: string, scope: string): Schema {
  const [shape = 'any', ...attributes] = text.split(' ');
  const parsed = attributes.length === 0 ? undefined : parseAttributes(attributes);
  return parseShape(shape, scope, parsed);
}

function parseShape(shape: string, scope: string, attributes: Attributes | undefined): Schema {
  if (shape.startsWith('[')) return { type: 'array', items: parseShape(shape.slice(1), scope, undefined), ...attributes };
  if (shape.startsWith('{')) return { type: 'object', additionalProperties: parseShape(shape.slice(1), scope, undefined), ...attributes };
  if (shape.startsWith('@')) {
    const ref = shape.slice(1);
    const id = ref.includes('/') ? ref : `${scope}.${ref}`;
    const definition = definitionOf(id);
    if (definition === undefined) throw new Error(`the schema table has no ${id}`);
    return attributes === undefined ? definition : new FieldSchema(definition, attributes);
  }
  const scalar = scalars[shape];
  if (scalar === undefined) throw new Error(`the schema table has an unknown type: ${shape}`);
  return attributes === undefined ? scalar : { ...scalar, ...attributes };
}

function parseAttributes(parts: readonly string[]): Attributes {
  const of = (name: string) => parts.find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);
  const [listType, keys, mapType, patch, mergeKey] = [of('list'), of('keys'), of('map'), of('patch'), of('mergeKey')];
  return {
    ...(listType !== undefined && { listType: listType as 'atomic' | 'set' | 'map' }),
    ...(keys !== undefined && { listMapKeys: keys.split(',') }),
    ...(mapType !== undefined && { mapType: mapType as 'atomic' | 'granular' }),
    ...(patch !== undefined && { patchStrategy: patch.split(',') as PatchStrategy[] }),
    ...(mergeKey !== undefined && { patchMergeKey: mergeKey }),
  };
}
