import { conformLeniently } from '@oarlock/api/schema/conform';
import { isObject, safeKey, type MutableObject } from '@oarlock/api/json/json';
import { definitionOf, type Schema } from '@oarlock/api/schema/schema';
import type { SchemaNode } from './schema-node.ts';

export const objectMetaSchema = definitionOf('meta/v1.ObjectMeta') as Schema;

type Fields = Readonly<Record<string, unknown>>;

/**
 * Prunes and defaults a value by its structural schema: removes unknown fields, removes or defaults null in fields that are not nullable,
 * and sets the defaults of absent fields. Returns the argument itself if nothing changes, and never modifies it. The metadata of the root
 * object is not pruned, the metadata of embedded objects is.
 */
export function pruneAndDefault<T>(schema: SchemaNode, value: T): T {
  return pruneValue(schema, value, true, schema.preserveUnknown) as T;
}

/** Returns the pruned value. `keeps` is true inside of x-kubernetes-preserve-unknown-fields, where unknown fields are kept. */
function pruneValue(schema: SchemaNode, value: unknown, root: boolean, keeps: boolean): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return Array.isArray(value) ? pruneList(schema, value, keeps) : pruneObject(schema, value as Fields, root, keeps);
}

function pruneList(schema: SchemaNode, value: readonly unknown[], keeps: boolean): unknown {
  const { items } = schema;
  if (items === undefined) return keeps ? value : value.some(isContainer) ? value.map(pruneUnknown) : value;
  let changed: unknown[] | undefined;
  const itemsKeep = keeps || items.preserveUnknown;
  for (let i = 0; i < value.length; i++) {
    const before = value[i];
    let after = before;
    if (before === null && !items.nullable && items.hasDefault) after = items.source.default;
    after = pruneValue(items, after, false, itemsKeep);
    if (after !== before) (changed ??= [...value])[i] = after;
  }
  return changed ?? value;
}

function pruneObject(schema: SchemaNode, value: Fields, root: boolean, keeps: boolean): unknown {
  let changed: MutableObject | undefined;
  const { additional } = schema;
  const whole = root || schema.embedded;
  for (const key of Object.keys(value)) {
    const before = value[key];
    if (whole && (key === 'metadata' || key === 'kind' || key === 'apiVersion')) {
      if (key !== 'metadata' || root) continue;
      const after = isObject(before) ? conformLeniently(objectMetaSchema, before) : before;
      if (after !== before) (changed ??= { ...value })[key] = after;
      continue;
    }
    const property = schema.property(key);
    if (property === undefined && additional === undefined) {
      if (keeps) continue;
      changed ??= { ...value };
      delete changed[key];
      continue;
    }
    let after = before;
    if (property !== undefined) {
      if (before === null && !property.nullable) {
        if (!property.hasDefault) {
          changed ??= { ...value };
          delete changed[key];
          continue;
        }
        after = property.source.default;
      }
      after = pruneValue(property, after, false, property.preserveUnknown);
    } else if (additional === true) after = keeps ? before : pruneUnknown(before);
    else if (additional !== undefined) {
      if (before === null && !additional.nullable && additional.hasDefault) after = additional.source.default;
      after = pruneValue(additional, after, false, additional.preserveUnknown);
    }
    if (after !== before) (changed ??= { ...value })[safeKey(key)] = after;
  }
  for (const [name, property] of schema.defaults) {
    if (Object.hasOwn(changed ?? value, name)) continue;
    (changed ??= { ...value })[name] = pruneValue(property, property.source.default, false, property.preserveUnknown);
  }
  return changed ?? value;
}

const isContainer = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** Returns the pruned value of a field without a schema, in which all fields are unknown. */
function pruneUnknown(value: unknown): unknown {
  if (Array.isArray(value)) return value.some(isContainer) ? value.map(pruneUnknown) : value;
  return isObject(value) && Object.keys(value).length > 0 ? {} : value;
}
