import { isObject } from '@oarlock/api/json/json';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';

/** The members of a schema that contain one schema, a list of schemas, or schemas by name. */
const single = ['items', 'additionalProperties', 'additionalItems', 'not'] as const;
const lists = ['allOf', 'anyOf', 'oneOf'] as const;
const named = ['properties', 'patternProperties', 'definitions', 'dependencies'] as const;

/** Returns the schemas that a schema contains directly. */
function childrenOf(schema: JSONSchemaProps): readonly JSONSchemaProps[] {
  const children: unknown[] = single.flatMap((member): unknown => schema[member]);
  for (const list of lists) children.push(...(schema[list] ?? []));
  for (const member of named) children.push(...Object.values(schema[member] ?? {}));
  return children.filter((child): child is JSONSchemaProps => isObject(child));
}

/** Returns true if the predicate holds for a schema or for one that it contains at any depth (SchemaHas upstream). */
export function schemaHas(schema: JSONSchemaProps, predicate: (schema: JSONSchemaProps) => boolean): boolean {
  const left = [schema];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if (predicate(next)) return true;
    left.push(...childrenOf(next));
  }
  return false;
}
