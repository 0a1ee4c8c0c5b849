import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { pruneAndDefault } from '../schema/pruning-and-defaulting.ts';
import { SchemaNode } from '../schema/schema-node.ts';
import { validateNode } from '../schema/value-validation.ts';

interface LocatedDefault {
  readonly schema: JSONSchemaProps;
  readonly value: unknown;
  readonly path: string;
}

/** Yields the defaults below a schema. */
function* defaultsBelow({ items, additionalProperties, properties = {} }: JSONSchemaProps, path: string): Generator<LocatedDefault> {
  if (items !== undefined && !Array.isArray(items)) yield* defaultsOf(items as JSONSchemaProps, `${path}.items`);
  if (typeof additionalProperties === 'object') yield* defaultsOf(additionalProperties, `${path}.additionalProperties`);
  for (const [name, property] of Object.entries(properties)) yield* defaultsOf(property, `${path}.properties[${name}]`);
}
function* defaultsOf(schema: JSONSchemaProps, path: string): Generator<LocatedDefault> {
  const { default: value } = schema;
  if (value !== undefined && value !== null) yield { schema, value, path: `${path}.default` };
  yield* defaultsBelow(schema, path);
}

const isPruned = ({ schema, value }: LocatedDefault): boolean => jsonEqual(withoutDefaults(schema, value), value);

/** Validates that defaults conform to their schema and, if `pruned`, contain no unknown fields. The schema must be structural. */
export function validateDefaults(schema: JSONSchemaProps, path: string, { pruned }: { readonly pruned: boolean }): readonly FieldError[] {
  return [...defaultsBelow(schema, path)].flatMap((each) => {
    if (pruned && !isPruned(each)) return [invalid(each.path, each.value, 'must not have unknown fields')];
    const node = new SchemaNode(each.schema);
    return validateNode(node, pruneAndDefault(node, each.value), each.path);
  });
}

/** Returns true if a default has a field that its schema does not have. The schema must be structural. */
export const hasUnprunedDefaults = (schema: JSONSchemaProps): boolean => [...defaultsBelow(schema, '')].some((each) => !isPruned(each));

/** Returns the pruned value without applying defaults. */
function withoutDefaults(schema: JSONSchemaProps, value: unknown): unknown {
  const removeDefaults = (source: JSONSchemaProps): JSONSchemaProps => {
    const { default: _default, properties, items, additionalProperties, ...rest } = source;
    return {
      ...rest,
      nullable: true,
      ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, removeDefaults(each)])) }),
      ...(items !== undefined && { items: Array.isArray(items) ? items : removeDefaults(items as JSONSchemaProps) }),
      ...(additionalProperties !== undefined && {
        additionalProperties: typeof additionalProperties === 'object' ? removeDefaults(additionalProperties) : additionalProperties,
      }),
    };
  };
  return pruneAndDefault(new SchemaNode(removeDefaults(schema)), value);
}
