import type { Schema, Schemas } from './openapi-schema.ts';
import type { YamlPosition } from './yaml-position.ts';

/** A text that the editor offers. */
export interface Completion {
  readonly label: string;
  /** The text that replaces what was typed. */
  readonly insert: string;
  readonly type: string;
  readonly description: string;
  readonly isRequired: boolean;
}

/** The type of a document that the server serves. */
export interface KnownType {
  readonly apiVersion: string;
  readonly kind: string;
}

/** Returns what fits at the position: what begins with the typed text first. Nothing if the only one is typed already. */
export function completionsAt(position: YamlPosition, schemas: Schemas | undefined, types: readonly KnownType[]): readonly Completion[] {
  const all = typeCompletions(position, types) ?? (schemas === undefined ? [] : schemaCompletions(position, schemas));
  const typed = position.prefix.toLowerCase();
  const begins = all.filter(({ label }) => label.toLowerCase().startsWith(typed));
  const contains = all.filter(({ label }) => label.toLowerCase().indexOf(typed) > 0);
  const found = [...begins, ...contains];
  if (found.length === 1 && found[0]?.label === position.prefix) return [];
  const { quote } = position;
  return quote === undefined
    ? found
    : found.map((item) => ({ ...item, insert: `${quote}${item.label}${quote}${item.insert.slice(item.label.length)}` }));
}

const plain = (label: string, type = ''): Completion => ({ label, insert: label, type, description: '', isRequired: false });

/** Returns the values of `apiVersion` and `kind`, each of those that fit to the other. */
function typeCompletions({ path, key, apiVersion, kind }: YamlPosition, types: readonly KnownType[]): readonly Completion[] | undefined {
  if (path.length > 0) return undefined;
  if (key === 'kind') {
    const inVersion = types.filter((each) => each.apiVersion === apiVersion);
    const kinds = (inVersion.length > 0 ? inVersion : types).map((each) => plain(each.kind, each.apiVersion));
    return kinds.toSorted((a, b) => (a.label < b.label ? -1 : 1));
  }
  if (key === 'apiVersion') {
    const ofKind = types.filter((each) => each.kind === kind);
    return [...new Set((ofKind.length > 0 ? ofKind : types).map((each) => each.apiVersion))].sort().map((each) => plain(each));
  }
  return undefined;
}

function schemaCompletions(position: YamlPosition, schemas: Schemas): readonly Completion[] {
  const { path, key, apiVersion, kind } = position;
  const root = schemas.ofKind(apiVersion, kind) ?? typeSchema;
  const schema = schemas.at(root, path);
  if (schema === undefined) return [];
  if (key !== undefined) {
    const value = schemas.at(schema, [key]);
    return value === undefined ? [] : values(value, position, schemas);
  }
  if (schema.properties === undefined) return values(schema, position, schemas);
  if (position.style === 'flow-list') return []; // each key would begin an item of its own
  return keys(schema, position, schemas);
}

/** A document without a type has these fields only, so far. */
const typeSchema: Schema = {
  type: 'object',
  required: ['apiVersion', 'kind'],
  properties: { apiVersion: { type: 'string' }, kind: { type: 'string' }, metadata: { type: 'object' } },
};

function values(schema: Schema, { quote }: YamlPosition, schemas: Schemas): readonly Completion[] {
  const { type, enum: choices = type === 'boolean' ? [true, false] : [] } = schema;
  // a value in quotes is a string
  const fitting = quote === undefined ? choices : choices.filter((choice) => typeof choice === 'string');
  return fitting.map((choice) => plain(String(choice), schemas.typeText(schema)));
}

function keys(
  { properties = {}, required = [] }: Schema,
  { siblings, column, style, isBeforeColon }: YamlPosition,
  schemas: Schemas,
): readonly Completion[] {
  return Object.entries(properties)
    .filter(([name]) => !siblings.includes(name))
    .map(([name, property]) => {
      const { type, description = '', properties: inner, additionalProperties } = schemas.resolve(property);
      const indent = ' '.repeat(column + 2);
      const isNested = type === 'object' || inner !== undefined || additionalProperties !== undefined;
      const [list, mapping] = style === 'block' ? [`\n${indent}- `, `\n${indent}`] : [' [', ' { '];
      const rest = type === 'array' ? list : isNested ? mapping : ' ';
      const insert = isBeforeColon ? name : `${name}:${rest}`;
      return { label: name, insert, type: schemas.typeText(property), description, isRequired: required.includes(name) };
    })
    .toSorted((a, b) => Number(b.isRequired) - Number(a.isRequired) || (a.label < b.label ? -1 : 1));
}
