import { stringifyExact } from '@oarlock/api/json/exact-json';
import { duplicate, type FieldError } from '@oarlock/api/field/field-error';
import { isObject } from '@oarlock/api/json/json';
import { itemKey } from './correlation.ts';
import type { SchemaNode } from './schema-node.ts';

const maxListErrors = 100;

/** Returns an error for each duplicate item in a list of type `set` or `map`. */
export function validateListTypes(schema: SchemaNode, value: unknown): readonly FieldError[] {
  const errors: FieldError[] = [];
  visit(schema, value, '', errors);
  return errors;
}

function visit(schema: SchemaNode, value: unknown, path: string, errors: FieldError[]): void {
  if (errors.length >= maxListErrors) return;
  if (Array.isArray(value)) {
    const { items } = schema;
    checkUniqueItems(schema, value, path, errors);
    if (items !== undefined && hasLists(items)) for (let i = 0; i < value.length; i++) visit(items, value[i], `${path}[${i}]`, errors);
  } else if (isObject(value)) {
    if (!hasLists(schema)) return;
    const additional = schema.additionalSchema;
    for (const key of Object.keys(value)) {
      const property = schema.property(key) ?? additional;
      if (property !== undefined && hasLists(property))
        visit(property, value[key], property === additional ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`, errors);
    }
  }
}

function checkUniqueItems(schema: SchemaNode, list: readonly unknown[], path: string, errors: FieldError[]): void {
  const type = schema.source['x-kubernetes-list-type'];
  const keys = schema.source['x-kubernetes-list-map-keys'] ?? [];
  if ((type !== 'set' && type !== 'map') || list.length < 2) return;
  const seen = new Set<string>();
  for (const [i, item] of list.entries()) {
    const key = type === 'set' ? canonical(item) : itemKey(keys, schema, item);
    if (key === undefined) continue;
    if (seen.has(key)) {
      const duplicateValue =
        type === 'set' ? item : Object.fromEntries(keys.map((name) => [name, (item as Readonly<Record<string, unknown>>)[name]]));
      errors.push(duplicate(`${path}[${i}]`, duplicateValue));
    }
    seen.add(key);
  }
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return stringifyExact(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`;
}

const known = new WeakMap<SchemaNode, boolean>();

/** Returns true if the schema contains a list of type `set` or `map`. */
function hasLists(schema: SchemaNode): boolean {
  let has = known.get(schema);
  if (has === undefined) {
    const type = schema.source['x-kubernetes-list-type'];
    has =
      type === 'set' ||
      type === 'map' ||
      (schema.items !== undefined && hasLists(schema.items)) ||
      (schema.additionalSchema !== undefined && hasLists(schema.additionalSchema)) ||
      schema.propertyNames.some((name) => hasLists(schema.property(name) as SchemaNode));
    known.set(schema, has);
  }
  return has;
}
