import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { z } from 'zod';
import { formatOf, isLinearPattern } from './internal/string-formats.ts';
import { SchemaError } from './schema-error.ts';
import { mergeIntersection, mergeUnion } from './internal/union-schema.ts';

/** JSON Schema in the OpenAPI 3.0 form that zod writes. */
export type WritableSchema = { -readonly [K in keyof JSONSchemaProps]: JSONSchemaProps[K] } & Record<string, unknown>;

/** The types of zod whose values JSON does not have, or that change a value while they parse it, with the remedy. */
const inexpressible: Readonly<Record<string, string>> = {
  bigint: 'JSON has no bigint: use z.int()',
  date: 'JSON has no date: use z.iso.datetime()',
  map: 'JSON has no map: use z.record()',
  set: 'JSON has no set: use listSet()',
  symbol: 'JSON has no symbol',
  undefined: 'JSON has no undefined: use .optional()',
  void: 'JSON has no undefined: use .optional()',
  nan: 'JSON has no NaN',
  null: 'a field that is always null has no meaning: use .nullable()',
  never: 'no value is valid',
  function: 'JSON has no function',
  file: 'JSON has no file',
  promise: 'JSON has no promise',
  transform: 'the API server does not transform values',
  pipe: 'the API server does not transform values',
  catch: 'the API server does not replace invalid values: use .default()',
  tuple: 'a structural schema has one schema for all items of a list: use z.array() or an object',
  template_literal: 'use z.string().regex()',
  success: 'it has no counterpart',
};

/**
 * Returns the structural schema (KEP-1693) that accepts what a zod schema accepts. Fields with a default are optional, because the API server sets the
 * default.
 * @throws SchemaError if the zod schema has a part that a CustomResourceDefinition cannot express, such as a refinement
 */
export function structuralSchema(type: z.ZodType, path = ''): JSONSchemaProps {
  let json: WritableSchema;
  try {
    json = z.toJSONSchema(type, {
      target: 'openapi-3.0',
      io: 'input',
      unrepresentable: 'any',
      cycles: 'throw',
      reused: 'inline',
      override: ({ zodSchema, jsonSchema, path: steps }) =>
        prepare(zodSchema, jsonSchema as WritableSchema, [path, fieldPath(steps)].filter(Boolean).join('.')),
    }) as WritableSchema;
  } catch (error) {
    if (error instanceof Error && error.message.includes('Cycle'))
      throw new SchemaError(path, 'a structural schema cannot be recursive: use objectOf() for the recursive part');
    throw error;
  }
  return complete(json, path);
}

/** Returns a path of zod's JSON Schema, such as `properties, ports, items`, as a path of fields. */
function fieldPath(steps: readonly (string | number)[]): string {
  let path = '';
  for (let i = 0; i < steps.length; i++) {
    if (steps[i] === 'properties') path += `${path === '' ? '' : '.'}${String(steps[++i])}`;
    else if (steps[i] === 'items') path += '[]';
    else if (steps[i] === 'additionalProperties') path += '.*';
  }
  return path;
}

/** Rejects what zod checks and JSON Schema does not contain, and adds what only the zod schema states. */
function prepare(zodSchema: z.core.$ZodTypes, json: WritableSchema, path: string): void {
  const { def } = zodSchema._zod;
  const reason = Object.hasOwn(inexpressible, def.type) ? inexpressible[def.type] : undefined;
  if (reason !== undefined) throw new SchemaError(path, reason);
  if (def.type === 'custom') throw new SchemaError(path, 'the API server cannot run this check: use objectOf() and rule()');
  for (const check of def.checks ?? [])
    if (check._zod.def.check === 'custom')
      throw new SchemaError(path, 'the API server cannot run a refinement: write it in CEL with rule()');
    else if (check._zod.def.check === 'overwrite') throw new SchemaError(path, 'the API server does not transform values');
  if (def.type === 'record') checkKeys(def.keyType, path);
  if (def.type === 'number') markInteger('format' in def ? def.format : undefined, json);
}

function checkKeys(keyType: z.core.$ZodType, path: string): void {
  const { def } = keyType._zod as z.core.$ZodTypes['_zod'];
  if (def.type !== 'string' || (def.checks ?? []).length > 0)
    throw new SchemaError(
      path,
      'a structural schema does not validate the keys of a map: use z.record(z.string(), ...) and rule(), or z.object()',
    );
}

/** zod bounds integers by what a JavaScript number can hold; Kubernetes declares the width of the integer instead. */
function markInteger(format: unknown, json: WritableSchema): void {
  if (json.type !== 'integer') return;
  const isNarrow = format === 'int32';
  json.format = isNarrow ? 'int32' : 'int64';
  const [lowest, highest] = isNarrow ? [-(2 ** 31), 2 ** 31 - 1] : [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  if (json.minimum === lowest) delete json.minimum;
  if (json.maximum === highest) delete json.maximum;
}

/** The keywords of zod's output that a CustomResourceDefinition can have. Others have no meaning to the API server. */
const keptKeywords = [
  'title',
  'description',
  'type',
  'default',
  'enum',
  'multipleOf',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'nullable',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-int-or-string',
  'x-kubernetes-embedded-resource',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
] as const;

/** Returns the structural schema of a value and of everything below it. */
function complete(json: WritableSchema, path: string): JSONSchemaProps {
  if (json['x-kubernetes-int-or-string'] === true) return { ...kept(json), ...(json.pattern !== undefined && { pattern: json.pattern }) };
  const parts = (json.anyOf ?? json.oneOf) as readonly WritableSchema[] | undefined;
  if (parts !== undefined) {
    return mergeUnion(kept(json), { parts: parts.map((part) => complete(part, path)), path });
  }
  return { ...kept(json), ...keywordsOfType(json, path) };
}

function kept(json: WritableSchema): WritableSchema {
  const result: Record<string, unknown> = {};
  for (const name of keptKeywords) if (json[name] !== undefined) result[name] = json[name];
  return result as WritableSchema;
}

/** Returns the keywords that depend on the type of the value. */
function keywordsOfType(json: WritableSchema, path: string): WritableSchema {
  const all = json.allOf as readonly WritableSchema[] | undefined;
  if (all !== undefined && json.type === undefined)
    return mergeIntersection(
      all.map((part) => complete(part, path)),
      path,
    ) as WritableSchema;
  switch (json.type) {
    case 'object':
      return objectKeywords(json, path);
    case 'array':
      return { items: complete(json.items as WritableSchema, `${path}[]`) };
    case 'string':
      return stringKeywords(json, path);
    case 'integer':
      return { format: json.format } as WritableSchema;
    case undefined:
      return { 'x-kubernetes-preserve-unknown-fields': true };
    default:
      return {};
  }
}

function objectKeywords(json: WritableSchema, path: string): WritableSchema {
  const { properties, required, additionalProperties: others } = json;
  const below = (name: string) => (path === '' ? name : `${path}.${name}`);
  const fields = Object.entries(properties ?? {}).map(([name, value]) => [name, complete(value as WritableSchema, below(name))] as const);
  const result: WritableSchema = {};
  if (fields.length > 0) result.properties = Object.fromEntries(fields);
  if (required !== undefined && required.length > 0) result.required = required;
  if (typeof others !== 'object') return result; // unknown fields are pruned, or rejected with `kubectl --validate=strict`
  const value = complete(others as WritableSchema, `${path}.*`);
  if (Object.keys(others).length === 0) result['x-kubernetes-preserve-unknown-fields'] = true;
  else if (fields.length > 0)
    throw new SchemaError(path, 'a structural schema has either named fields or a schema for all others: use z.object() or z.record()');
  else result.additionalProperties = value;
  return result;
}

function stringKeywords(json: WritableSchema, path: string): WritableSchema {
  const { format, keepsPattern } = formatOf(json.format as string | undefined);
  const ownPatterns = json.pattern === undefined || !keepsPattern ? [] : [json.pattern];
  const patterns = [...ownPatterns, ...((json.allOf ?? []) as readonly WritableSchema[]).flatMap(({ pattern }) => pattern ?? [])];
  for (const pattern of patterns)
    if (!isLinearPattern(pattern))
      throw new SchemaError(
        path,
        `the pattern ${pattern} has a lookaround or a backreference, which the API server (RE2) does not support`,
      );
  const [first, ...more] = patterns;
  return {
    ...(format !== undefined && { format }),
    ...(first !== undefined && { pattern: first }),
    ...(more.length > 0 && { allOf: more.map((pattern) => ({ pattern })) }),
  };
}
