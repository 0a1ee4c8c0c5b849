import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { SchemaError } from '../schema-error.ts';

type Properties = Readonly<Record<string, JSONSchemaProps>>;
export interface UnionParts {
  readonly parts: readonly JSONSchemaProps[];
  readonly path: string;
}

/**
 * Returns the schema of a union. A structural schema declares types and fields once, outside of `anyOf`: alternatives of objects become optional fields
 * and restrictions by alternative.
 */
export function mergeUnion(outer: JSONSchemaProps, { parts, path }: UnionParts): JSONSchemaProps {
  const types = new Set(parts.map(({ type }) => type));
  if (types.size === 2 && types.has('string') && types.has('integer') && parts.every(isUnrestricted))
    return { ...outer, 'x-kubernetes-int-or-string': true };
  const [type] = types;
  if (types.size !== 1 || type === undefined)
    throw new SchemaError(
      path,
      `a structural schema has one type for a field, not ${[...types].map((name) => name ?? 'any').join(' or ')}`,
    );
  if (parts.some(({ nullable }) => nullable === true)) throw new SchemaError(path, 'make the union nullable instead of an alternative');
  if (type === 'object') return { ...outer, type, ...mergeObjects({ parts, path }) };
  if (type === 'array') throw new SchemaError(path, 'a structural schema has one schema for all items of a list');
  if (parts.every(({ enum: values }) => values !== undefined))
    return { ...outer, type, enum: [...new Set(parts.flatMap(({ enum: values = [] }) => values))] };
  return { ...outer, type, anyOf: parts.map(withoutStructure) };
}

const isUnrestricted = (schema: JSONSchemaProps): boolean => Object.keys(schema).every((name) => name === 'type' || name === 'format');

/** Returns a schema without the keywords that must not be below `anyOf`. */
const withoutStructure = (schema: JSONSchemaProps): JSONSchemaProps =>
  Object.fromEntries(Object.entries(schema).filter(([name]) => !structural.has(name)));
const structural: ReadonlySet<string> = new Set(['type', 'title', 'description', 'default']);

function mergeObjects({ parts, path }: UnionParts): JSONSchemaProps {
  const properties: Record<string, JSONSchemaProps> = {};
  for (const part of parts) {
    if (part.properties === undefined || part.anyOf !== undefined)
      throw new SchemaError(path, 'an alternative must be an object with named fields');
    for (const [name, schema] of Object.entries(part.properties))
      properties[name] = mergeField(properties[name], schema, `${path}.${name}`);
  }
  const inAll = (parts[0]?.required ?? []).filter((name) => parts.every(({ required }) => required?.includes(name) === true));
  const anyOf = parts.map(({ properties: own = {}, required }) => {
    const restricted = Object.entries(own).filter(([name, schema]) => !jsonEqual(schema, properties[name]));
    // a field of another alternative must be absent
    const absent = Object.keys(properties).filter((name) => !Object.hasOwn(own, name));
    return {
      ...(restricted.length > 0 && {
        properties: Object.fromEntries(restricted.map(([name, { enum: values }]) => [name, { enum: values }])),
      }),
      ...(required !== undefined && { required }),
      ...(absent.length > 0 && { not: { anyOf: absent.map((name) => ({ required: [name] })) } }),
    } as JSONSchemaProps;
  });
  return { properties, ...(inAll.length > 0 && { required: inAll }), anyOf };
}

/** Returns the schema of a field that several alternatives have: equal schemas, or enumerations, such as those of a discriminator. */
function mergeField(known: JSONSchemaProps | undefined, schema: JSONSchemaProps, path: string): JSONSchemaProps {
  if (known === undefined || jsonEqual(known, schema)) return schema;
  const { enum: before, ...first } = known;
  const { enum: own, ...second } = schema;
  if (before === undefined || own === undefined || !jsonEqual(first, second))
    throw new SchemaError(path, 'the alternatives of a union must declare a field in the same way, or with enumerations of one type');
  return { ...first, enum: [...new Set([...before, ...own])] };
}

/** Returns the schema of an intersection of objects. */
export function mergeIntersection(parts: readonly JSONSchemaProps[], path: string): JSONSchemaProps {
  const properties: Record<string, JSONSchemaProps> = {};
  for (const part of parts) {
    if (part.type !== 'object' || part.anyOf !== undefined)
      throw new SchemaError(path, 'an intersection must be of objects with named fields');
    for (const [name, schema] of Object.entries((part.properties ?? {}) as Properties)) {
      if (properties[name] !== undefined && !jsonEqual(properties[name], schema))
        throw new SchemaError(`${path}.${name}`, 'the parts of an intersection declare a field differently');
      properties[name] = schema;
    }
  }
  const required = [...new Set(parts.flatMap(({ required: names = [] }) => names))];
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}
