import { fieldForbidden, invalid, notSupported, type FieldError } from '@oarlock/api/field/field-error';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { compilePattern } from '../schema/pattern.ts';
import { atomicSetErrors, listAndMapTypeErrors, mapKeyAndSetItemErrors } from './list-type-validation.ts';
import { schemaTypes, type SchemaRequirements } from './schema-requirements.ts';

type Errors = FieldError[];

const unsupported = ['id', 'additionalItems', 'patternProperties', 'definitions', 'dependencies', '$ref'] as const;
const maxDepth = 100;

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);

/** Rejects OpenAPI features that CustomResourceDefinitions do not support, and extensions that conflict with each other. */
export function validateStructuralSchema(schema: JSONSchemaProps, path: string, requirements: SchemaRequirements): readonly FieldError[] {
  const errors: Errors = [];
  visit(errors, schema, { path, depth: 0, isInMeta: false, forbiddenDefaults: 'at the root', requirements });
  return errors;
}

interface SchemaLocation {
  readonly path: string;
  readonly depth: number;
  /** True for the schemas of apiVersion, kind and metadata of the object or of an embedded object, and for schemas inside of them. */
  readonly isInMeta: boolean;
  /** The place because of which defaults are forbidden; undefined if they are allowed. */
  readonly forbiddenDefaults: string | undefined;
  readonly requirements: SchemaRequirements;
}

const metaFields: ReadonlySet<string> = new Set(['metadata', 'kind', 'apiVersion']);

function visit(errors: Errors, schema: JSONSchemaProps, location: SchemaLocation): void {
  const { path, depth, isInMeta, forbiddenDefaults, requirements } = location;
  if (depth > maxDepth) {
    errors.push(fieldForbidden(path, `a schema may not nest more than ${maxDepth} deep`));
    return;
  }
  for (const name of unsupported) if (!isEmpty(schema[name])) errors.push(fieldForbidden(`${path}.${name}`, `${name} is not supported`));
  const { type = '', items, additionalProperties, properties = {}, pattern = '' } = schema;
  if (forbiddenDefaults !== undefined && schema.default !== undefined && schema.default !== null)
    errors.push(fieldForbidden(`${path}.default`, `must not be set ${forbiddenDefaults}`));
  if (isInMeta && schema['x-kubernetes-embedded-resource'] === true)
    errors.push(fieldForbidden(`${path}.x-kubernetes-embedded-resource`, 'must not be used inside of resource meta'));
  if (schema.uniqueItems === true)
    errors.push(fieldForbidden(`${path}.uniqueItems`, 'uniqueItems cannot be set to true since the runtime complexity becomes quadratic'));
  // `true` is the meaning of absent additionalProperties in JSON schema, so it may stand beside properties
  if (additionalProperties !== undefined && additionalProperties !== true && Object.keys(properties).length > 0)
    errors.push(fieldForbidden(`${path}.additionalProperties`, 'additionalProperties and properties are mutual exclusive'));
  if (type === 'null') errors.push(fieldForbidden(`${path}.type`, 'type cannot be set to null, use nullable as an alternative'));
  else if (type !== '' && requirements.types && !schemaTypes.includes(type)) errors.push(notSupported(`${path}.type`, type, schemaTypes));
  if (Array.isArray(items)) errors.push(fieldForbidden(`${path}.items`, 'items must be a schema object and not an array'));
  if (schema['x-kubernetes-preserve-unknown-fields'] === false)
    errors.push(invalid(`${path}.x-kubernetes-preserve-unknown-fields`, false, 'must be true or undefined'));
  if (pattern !== '') {
    const compiled = compilePattern(pattern);
    if (compiled instanceof Error)
      errors.push(invalid(`${path}.pattern`, pattern, `must be a valid regular expression, but isn't: ${compiled.message}`));
  }
  errors.push(
    ...listAndMapTypeErrors(schema, path),
    ...(requirements.atomicSets ? atomicSetErrors(schema, path) : []),
    ...(requirements.mapKeysAndSetItems ? mapKeyAndSetItemErrors(schema, path) : []),
  );
  visitChildren(errors, schema, location);
}

function visitChildren(
  errors: Errors,
  schema: JSONSchemaProps,
  { path, depth, isInMeta, forbiddenDefaults, requirements }: SchemaLocation,
): void {
  const { items, additionalProperties, properties = {} } = schema;
  const isRoot = depth === 0;
  // validateStructure rejects the other defaults at the root and inside of junctors
  const inherited: SchemaLocation = {
    path,
    depth: depth + 1,
    isInMeta,
    forbiddenDefaults: isRoot ? undefined : forbiddenDefaults,
    requirements,
  };
  if (items !== undefined && !Array.isArray(items)) visit(errors, items as JSONSchemaProps, { ...inherited, path: `${path}.items` });
  if (typeof additionalProperties === 'object')
    visit(errors, additionalProperties, {
      ...inherited,
      path: `${path}.additionalProperties`,
      forbiddenDefaults: isInMeta ? 'inside additionalProperties applying to object metadata' : inherited.forbiddenDefaults,
    });
  for (const [name, property] of Object.entries(properties)) {
    const isMeta = metaFields.has(name) && (isRoot || schema['x-kubernetes-embedded-resource'] === true);
    visit(errors, property, {
      ...inherited,
      path: `${path}.properties[${name}]`,
      isInMeta: isInMeta || isMeta,
      forbiddenDefaults: isRoot && isMeta ? `in top-level ${name}` : inherited.forbiddenDefaults,
    });
  }
  for (const junctor of ['allOf', 'anyOf', 'oneOf'] as const)
    for (const [i, part] of (schema[junctor] ?? []).entries()) visit(errors, part, { ...inherited, path: `${path}.${junctor}[${i}]` });
  if (schema.not !== undefined) visit(errors, schema.not, { ...inherited, path: `${path}.not` });
}
