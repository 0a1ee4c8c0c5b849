import { isObject } from '@oarlock/api/json';
import { applyJsonPatch } from '@oarlock/api/json-patch';
import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import { deducedType, type FieldType } from '@oarlock/api/managed-fields/field-type';
import { mergeTyped } from '@oarlock/api/managed-fields/typed-merge';
import { gvkOf } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema';
import { StatusError } from '@oarlock/api/status';
import { CelError } from '@oarlock/cel/cel-error';
import { toJson } from '@oarlock/cel/json-value';
import type { Value } from '@oarlock/cel/value';

/** Why a mutation cannot be made. */
export class MutationFault extends Error {}

const types = new BuiltinTypes();

/** The object with a configuration merged into it, as server-side apply would. @throws MutationFault */
export function applyConfiguration(object: KubeObject, value: Value): KubeObject {
  const config = json(value, 'Object');
  if (!isObject(config)) throw new MutationFault('the expression must evaluate to an object');
  const schema = schemaOf(gvkOf(object));
  const type = schema === undefined ? deducedType : types.of(schema);
  const atomic = atomicPath(type, config, '');
  if (atomic !== undefined) throw new MutationFault(`invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ${atomic}`);
  const { metadata } = object;
  const merged = mergeTyped(type, object, config) as KubeObject;
  return {
    ...merged,
    ...(object.apiVersion !== undefined && { apiVersion: object.apiVersion }),
    ...(object.kind !== undefined && { kind: object.kind }),
    metadata: {
      ...merged.metadata,
      ...(metadata?.name !== undefined && { name: metadata.name }),
      ...(metadata?.namespace !== undefined && { namespace: metadata.namespace }),
    },
  };
}

/** The object as the operations of a JSON patch leave it. @throws MutationFault */
export function applyPatch(object: KubeObject, value: Value): KubeObject {
  const operations = json(value, 'JSONPatch');
  if (!Array.isArray(operations)) throw new MutationFault('the expression must evaluate to a list of JSONPatch');
  let next: unknown;
  try {
    next = applyJsonPatch(object, operations);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    throw new MutationFault(`JSON Patch: ${error.message}`, { cause: error });
  }
  if (!isObject(next)) throw new MutationFault('JSON Patch: the result is not an object');
  return next as KubeObject;
}

function json(value: Value, root: string): unknown {
  try {
    return toJson(value, ({ typeName }, path) => {
      if (root !== 'Object' || typeName === 'map') return;
      const expected = ['Object', ...path].join('.');
      if (typeName !== expected)
        throw new MutationFault(
          `unexpected type name ${JSON.stringify(typeName)}, expected ${JSON.stringify(expected)}, which matches field name path from root Object type`,
        );
    });
  } catch (error) {
    if (error instanceof CelError) throw new MutationFault(error.message, { cause: error });
    throw error;
  }
}

/** Where a configuration would replace what has one owner as a whole. */
function atomicPath(type: FieldType, config: unknown, path: string): string | undefined {
  if (type === deducedType) return undefined;
  if (Array.isArray(config)) {
    if (type.list === undefined) return undefined;
    if (type.list.relation === 'atomic') return path;
    const { items } = type.list;
    return firstOf(config.map((item) => () => atomicPath(items, item, path)));
  }
  if (!isObject(config) || type.map === undefined) return undefined;
  if (type.map.atomic) return path;
  const { fields, values } = type.map;
  return firstOf(
    Object.keys(config).map((key) => () => {
      const inner = fields.get(key)?.type ?? values;
      return inner === undefined ? undefined : atomicPath(inner, config[key], `${path}.${key}`);
    }),
  );
}
function firstOf(looks: readonly (() => string | undefined)[]): string | undefined {
  for (const look of looks) {
    const found = look();
    if (found !== undefined) return found;
  }
  return undefined;
}
