import { isObject } from '@oarlock/api/json/json';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import { deducedType, type FieldType } from '@oarlock/api/managed-fields/field-type';
import { mergeTyped } from '@oarlock/api/managed-fields/typed-merge';
import { gvkOf } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { StatusError } from '@oarlock/api/status';
import { CelError } from '@oarlock/cel/values/cel-error';
import { toJson } from '@oarlock/cel/values/json-value';
import type { Value } from '@oarlock/cel/values/value';

/** The error of a mutation that cannot be applied. */
export class MutationError extends Error {}

const types = new BuiltinTypes();

/**
 * Returns the object with an apply configuration merged into it, as server-side apply does.
 * @throws MutationError if the value is not an apply configuration, or if it would replace an atomic list, map or struct
 */
export function applyConfiguration(object: KubeObject, value: Value): KubeObject {
  const config = json(value, 'Object');
  if (!isObject(config)) throw new MutationError('the expression must evaluate to an object');
  const schema = schemaOf(gvkOf(object));
  const type = schema === undefined ? deducedType : types.of(schema);
  const atomic = atomicPath(type, config, '');
  if (atomic !== undefined) throw new MutationError(`invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ${atomic}`);
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

/** Returns the object after the operations of a JSON patch. @throws MutationError if the patch cannot be applied */
export function applyPatch(object: KubeObject, value: Value): KubeObject {
  const operations = json(value, 'JSONPatch');
  if (!Array.isArray(operations)) throw new MutationError('the expression must evaluate to a list of JSONPatch');
  let next: unknown;
  try {
    next = applyJsonPatch(object, operations);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    throw new MutationError(`JSON Patch: ${error.message}`, { cause: error });
  }
  if (!isObject(next)) throw new MutationError('JSON Patch: the result is not an object');
  return next as KubeObject;
}

function json(value: Value, root: string): unknown {
  try {
    return toJson(value, ({ typeName }, path) => {
      if (root !== 'Object' || typeName === 'map') return;
      const expected = ['Object', ...path].join('.');
      if (typeName !== expected)
        throw new MutationError(
          `unexpected type name ${JSON.stringify(typeName)}, expected ${JSON.stringify(expected)}, which matches field name path from root Object type`,
        );
    });
  } catch (error) {
    if (error instanceof CelError) throw new MutationError(error.message, { cause: error });
    throw error;
  }
}

/** Returns the path of an atomic list, map or struct that the apply configuration would replace; undefined if there is none. */
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
