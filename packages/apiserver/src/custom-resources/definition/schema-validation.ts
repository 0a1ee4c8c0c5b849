import { fieldForbidden, invalid, notSupported, required, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { pruneAndDefault } from '../schema/pruning-and-defaulting.ts';
import { compilePattern } from '../schema/pattern.ts';
import { SchemaNode } from '../schema/schema-node.ts';
import { validateNode } from '../schema/value-validation.ts';

type Errors = FieldError[];

const types = ['array', 'boolean', 'integer', 'number', 'object', 'string'];
const unsupported = ['id', 'additionalItems', 'patternProperties', 'definitions', 'dependencies', '$ref'] as const;
const maxDepth = 100;

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);

/** Rejects OpenAPI features that CustomResourceDefinitions do not support, and extensions that conflict with each other. */
export function validateStructuralSchema(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const errors: Errors = [];
  visit(errors, schema, { path, depth: 0, isInMeta: false, forbiddenDefaults: 'at the root' });
  return errors;
}

interface SchemaLocation {
  readonly path: string;
  readonly depth: number;
  /** True for the schemas of apiVersion, kind and metadata of the object or of an embedded object, and for schemas inside of them. */
  readonly isInMeta: boolean;
  /** The place because of which defaults are forbidden; undefined if they are allowed. */
  readonly forbiddenDefaults: string | undefined;
}

const metaFields: ReadonlySet<string> = new Set(['metadata', 'kind', 'apiVersion']);

function visit(errors: Errors, schema: JSONSchemaProps, location: SchemaLocation): void {
  const { path, depth, isInMeta, forbiddenDefaults } = location;
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
  else if (type !== '' && !types.includes(type)) errors.push(notSupported(`${path}.type`, type, types));
  if (Array.isArray(items)) errors.push(fieldForbidden(`${path}.items`, 'items must be a schema object and not an array'));
  if (schema['x-kubernetes-preserve-unknown-fields'] === false)
    errors.push(invalid(`${path}.x-kubernetes-preserve-unknown-fields`, false, 'must be true or undefined'));
  if (pattern !== '') {
    const compiled = compilePattern(pattern);
    if (compiled instanceof Error)
      errors.push(invalid(`${path}.pattern`, pattern, `must be a valid regular expression, but isn't: ${compiled.message}`));
  }
  validateListAndMapTypes(errors, schema, path);
  visitChildren(errors, schema, location);
}

function visitChildren(errors: Errors, schema: JSONSchemaProps, { path, depth, isInMeta, forbiddenDefaults }: SchemaLocation): void {
  const { items, additionalProperties, properties = {} } = schema;
  const isRoot = depth === 0;
  // validateStructure rejects the other defaults at the root and inside of junctors
  const inherited: SchemaLocation = { path, depth: depth + 1, isInMeta, forbiddenDefaults: isRoot ? undefined : forbiddenDefaults };
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

function validateListAndMapTypes(errors: Errors, schema: JSONSchemaProps, path: string): void {
  const { type = '' } = schema;
  const mapType = schema['x-kubernetes-map-type'];
  const listType = schema['x-kubernetes-list-type'];
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  const requireType = (wanted: string, extension: string) => {
    const detail = `must be ${wanted} if ${extension} is specified`;
    if (type !== wanted) errors.push(type === '' ? required(`${path}.type`, detail) : invalid(`${path}.type`, type, detail));
  };
  if (mapType !== undefined) {
    requireType('object', 'x-kubernetes-map-type');
    if (mapType !== 'atomic' && mapType !== 'granular')
      errors.push(notSupported(`${path}.x-kubernetes-map-type`, mapType, ['atomic', 'granular']));
  }
  if (listType !== undefined) {
    requireType('array', 'x-kubernetes-list-type');
    if (!['atomic', 'set', 'map'].includes(listType))
      errors.push(notSupported(`${path}.x-kubernetes-list-type`, listType, ['atomic', 'set', 'map']));
  }
  if (keys.length > 0 && listType !== 'map') {
    const detail = 'must be map if x-kubernetes-list-map-keys is non-empty';
    const at = `${path}.x-kubernetes-list-type`;
    errors.push(listType === undefined ? required(at, detail) : invalid(at, listType, detail));
  }
  const items = Array.isArray(schema.items) ? undefined : (schema.items as JSONSchemaProps | undefined);
  if (listType === 'set' && items !== undefined) validateSetItems(errors, items, `${path}.items`);
  if (listType === 'map') validateMapItems(errors, { items, keys }, path);
}

function validateSetItems(errors: Errors, items: JSONSchemaProps, path: string): void {
  const detail = 'must be atomic as item of a list with x-kubernetes-list-type=set';
  const expected = items.type === 'object' ? 'x-kubernetes-map-type' : items.type === 'array' ? 'x-kubernetes-list-type' : undefined;
  if (items.nullable === true) errors.push(fieldForbidden(`${path}.nullable`, 'cannot be nullable when x-kubernetes-list-type is set'));
  if (expected === undefined) return;
  const value = items[expected];
  // lists are atomic by default, maps are not; upstream reports the list type of either
  const isAtomic = value === 'atomic' || (value === undefined && items.type === 'array');
  if (!isAtomic) errors.push(invalid(`${path}.${expected}`, items['x-kubernetes-list-type'] ?? null, detail));
}

interface MapList {
  readonly items: JSONSchemaProps | undefined;
  readonly keys: readonly string[];
}

function validateMapItems(errors: Errors, { items, keys }: MapList, path: string): void {
  if (keys.length === 0) errors.push(required(`${path}.x-kubernetes-list-map-keys`, 'must not be empty if x-kubernetes-list-type is map'));
  if (items === undefined) {
    errors.push(required(`${path}.items`, 'must have a schema if x-kubernetes-list-type is map'));
    return;
  }
  if (items.nullable === true)
    errors.push(fieldForbidden(`${path}.items.nullable`, 'cannot be nullable when x-kubernetes-list-type is map'));
  if (items.type !== 'object') {
    errors.push(invalid(`${path}.items.type`, items.type ?? '', "must be object if parent array's x-kubernetes-list-type is map"));
    return;
  }
  const seen = new Set<string>();
  for (const key of keys) {
    const property = items.properties !== undefined && Object.hasOwn(items.properties, key) ? items.properties[key] : undefined;
    const at = `${path}.items.properties[${key}]`;
    if (seen.has(key)) errors.push(invalid(`${path}.x-kubernetes-list-map-keys`, keys, 'must not contain duplicate entries'));
    seen.add(key);
    if (property === undefined) {
      errors.push(invalid(`${path}.x-kubernetes-list-map-keys`, keys, 'entries must all be names of item properties'));
      continue;
    }
    // the reported value is the type of the items, as upstream
    if (property.type === 'array' || property.type === 'object')
      errors.push(invalid(`${at}.type`, items.type, "must be a scalar type if parent array's x-kubernetes-list-type is map"));
    if (property.nullable === true)
      errors.push(fieldForbidden(`${at}.nullable`, 'this property is in x-kubernetes-list-map-keys, so it cannot be nullable'));
    if (property.default === undefined && !(items.required ?? []).includes(key))
      errors.push(
        required(`${at}.default`, 'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property'),
      );
  }
}

/** Validates that defaults conform to their schema and contain no unknown fields. The schema must be structural. */
export function validateDefaults(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const errors: Errors = [];
  visitChildDefaults(errors, schema, path);
  return errors;
}

function visitDefaults(errors: Errors, schema: JSONSchemaProps, path: string): void {
  const { default: value } = schema;
  if (value !== undefined && value !== null) {
    const at = `${path}.default`;
    const node = new SchemaNode(schema);
    if (!jsonEqual(withoutDefaults(schema, value), value)) errors.push(invalid(at, value, 'must not have unknown fields'));
    else errors.push(...validateNode(node, pruneAndDefault(node, value), at));
  }
  visitChildDefaults(errors, schema, path);
}

function visitChildDefaults(errors: Errors, { items, additionalProperties, properties = {} }: JSONSchemaProps, path: string): void {
  if (items !== undefined && !Array.isArray(items)) visitDefaults(errors, items as JSONSchemaProps, `${path}.items`);
  if (typeof additionalProperties === 'object') visitDefaults(errors, additionalProperties, `${path}.additionalProperties`);
  for (const [name, property] of Object.entries(properties)) visitDefaults(errors, property, `${path}.properties[${name}]`);
}

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
