import { stringifyExact } from '@oarlock/api/json/exact-json';
import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { SchemaNode } from './schema-node.ts';

/** The old value that correlates with a new value (KEP-4008). */
export interface CorrelatedOld {
  readonly value: unknown;
  /** The items of a list of type `map` by their keys. Built on first use. */
  items?: ReadonlyMap<string, unknown>;
}

/** Returns the map keys of a list item (x-kubernetes-list-map-keys) as one string; undefined if the item is not an object. */
export function itemKey(keys: readonly string[], schema: SchemaNode, item: unknown): string | undefined {
  if (!isObject(item)) return undefined;
  return stringifyExact(keys.map((key) => item[key] ?? schema.items?.property(key)?.source.default ?? null));
}

/**
 * Returns the old values that correlate with fields and items of a new value (KEP-4008). List items correlate by their keys in lists of type
 * `map`, otherwise by index if the whole list is unchanged.
 */
export const correlate = {
  field(old: CorrelatedOld | undefined, key: string): CorrelatedOld | undefined {
    if (old === undefined || !isObject(old.value) || !Object.hasOwn(old.value, key)) return undefined;
    return { value: old.value[key] };
  },

  item(schema: SchemaNode, old: CorrelatedOld | undefined, list: readonly unknown[], index: number): CorrelatedOld | undefined {
    if (old === undefined || !Array.isArray(old.value)) return undefined;
    const keys = schema.source['x-kubernetes-list-map-keys'] ?? [];
    if (schema.source['x-kubernetes-list-type'] === 'map' && keys.length > 0) {
      old.items ??= new Map((old.value as unknown[]).map((item) => [itemKey(keys, schema, item) ?? '', item]));
      const key = itemKey(keys, schema, list[index]);
      if (key === undefined || !old.items.has(key)) return undefined;
      return { value: old.items.get(key) };
    }
    return jsonEqual(old.value, list) ? { value: (old.value as unknown[])[index] } : undefined;
  },
};
