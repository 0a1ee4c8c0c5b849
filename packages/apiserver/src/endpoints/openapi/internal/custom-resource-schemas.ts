import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { Json, OpenApiVersion } from './definition-names.ts';
import type { SchemaDefinitions } from './schema-definitions.ts';
import type { PublishedKind } from '../../../custom-resources/published-kind.ts';
import { describeCustomItems, describeCustomList, standardDescriptions } from '../openapi-descriptions.ts';

/** Returns the definition name of a custom kind: `com.example.v1.Widget` for kind Widget of `example.com/v1`. */
const nameOf = ({ group, version, kind }: GroupVersionKind) => `${group.split('.').reverse().join('.')}.${version}.${kind}`;

/** Returns a `$ref` to the definition of a custom resource. */
export function refToCustomKind(kind: PublishedKind, definitions: SchemaDefinitions, version: OpenApiVersion): Json {
  const gvk = { group: kind.group, version: kind.version, kind: kind.kind };
  return definitions.refToGenerated(nameOf(gvk), gvk, (metadata) => bodyOf(kind.publishedSchema.schema ?? {}, metadata, version));
}

export function refToCustomList(kind: PublishedKind, definitions: SchemaDefinitions, version: OpenApiVersion): Json {
  const gvk = { group: kind.group, version: kind.version, kind: kind.kind };
  return definitions.refToGeneratedList({
    itemName: nameOf(gvk),
    item: refToCustomKind(kind, definitions, version),
    list: { ...gvk, kind: kind.listKind },
    description: describeCustomList(kind.listKind, kind.kind),
    itemsDescription: describeCustomItems(kind.resource),
  });
}

function bodyOf(schema: JSONSchemaProps, metadata: Json, version: OpenApiVersion): Json {
  // clients that validate with OpenAPI v2 reject fields that are not declared, so a schema that preserves unknown fields is omitted
  if (version === 2 && schema['x-kubernetes-preserve-unknown-fields'] === true) return { type: 'object' };
  const published = publish(schema, version, metadata);
  return {
    ...published,
    type: 'object',
    properties: { ...objectProperties(metadata), ...withoutOwn(published['properties'] as Json | undefined) },
  };
}

const objectProperties = (metadata: Json): Json => ({
  apiVersion: { type: 'string', description: standardDescriptions.apiVersion },
  kind: { type: 'string', description: standardDescriptions.kind },
  metadata: { ...metadata, description: standardDescriptions.metadata },
});

function withoutOwn(properties: Json | undefined): Json {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...rest } = properties ?? {};
  return rest;
}

/** The keywords of JSON schema that OpenAPI v2 does not define, or that clients of OpenAPI v2 misinterpret. */
const notInV2: ReadonlySet<string> = new Set(['oneOf', 'anyOf', 'allOf', 'not', 'nullable', '$schema', 'id', 'x-kubernetes-validations']);

function publish(schema: JSONSchemaProps, version: OpenApiVersion, metadata: Json): Json {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (version === 2 && notInV2.has(key)) continue;
    if (key === 'properties')
      result[key] = Object.fromEntries(
        Object.entries(value as Record<string, JSONSchemaProps>).map(([name, property]) => [name, publish(property, version, metadata)]),
      );
    else if (key === 'items' || key === 'not') result[key] = publish(value as JSONSchemaProps, version, metadata);
    else if (key === 'additionalProperties')
      result[key] = typeof value === 'object' ? publish(value as JSONSchemaProps, version, metadata) : value;
    else if (key === 'allOf' || key === 'anyOf' || key === 'oneOf')
      result[key] = (value as readonly JSONSchemaProps[]).map((part) => publish(part, version, metadata));
    else result[key] = value;
  }
  if (version === 2) forV2(schema, result);
  if (schema['x-kubernetes-embedded-resource'] === true)
    result['properties'] = { ...objectProperties(metadata), ...withoutOwn(result['properties'] as Json | undefined) };
  return result;
}

/**
 * Removes constructs from a schema because of which clients that validate with OpenAPI v2 would reject valid objects: these clients reject unknown
 * fields and every null.
 */
function forV2(schema: JSONSchemaProps, result: Record<string, unknown>): void {
  const free = schema['x-kubernetes-preserve-unknown-fields'] === true || schema.nullable === true;
  if (free || schema['x-kubernetes-int-or-string'] === true) {
    for (const key of ['type', 'properties', 'items', 'additionalProperties', 'required', 'format', 'enum']) {
      if (key === 'properties' && schema['x-kubernetes-preserve-unknown-fields'] === true && schema.type === 'object') continue;
      delete result[key];
    }
    if (schema['x-kubernetes-preserve-unknown-fields'] === true && schema.type === 'object' && schema.nullable !== true)
      result['type'] = 'object';
  }
  // OpenAPI v2 has no array without items
  if (result['type'] === 'array' && result['items'] === undefined) delete result['type'];
}
