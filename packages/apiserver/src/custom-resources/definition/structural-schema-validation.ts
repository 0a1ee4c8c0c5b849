import { fieldForbidden, invalid, required, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';

type Errors = FieldError[];
type Level = 'root' | 'items' | 'field';

const unnamed: Readonly<Record<Level, string>> = {
  root: 'must not be empty at the root',
  items: 'must not be empty for specified array items',
  field: 'must not be empty for specified object fields',
};
const eitherType = [{ type: 'integer' }, { type: 'string' }];
const junctors = ['allOf', 'anyOf', 'oneOf'] as const;

/** Returns an error for each reason why a schema is not structural (KEP-1693). */
export function validateStructure(schema: JSONSchemaProps, path: string): readonly FieldError[] {
  const errors: Errors = [];
  visitStructure(errors, schema, { level: 'root', path });
  validateCompleteness(errors, schema, path);
  return errors;
}

const itemSchema = (items: JSONSchemaProps['items']): JSONSchemaProps | undefined =>
  items === undefined || Array.isArray(items) ? undefined : (items as JSONSchemaProps);
const additionalPropertiesSchema = (schema: JSONSchemaProps): JSONSchemaProps | undefined =>
  typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;

interface StructureLocation {
  readonly level: Level;
  readonly path: string;
}

function visitStructure(errors: Errors, schema: JSONSchemaProps, { level, path }: StructureLocation): void {
  const items = itemSchema(schema.items);
  if (schema.type === 'array' && items === undefined) errors.push(required(`${path}.items`, 'must be specified'));
  if (items !== undefined) visitStructure(errors, items, { level: 'items', path: `${path}.items` });
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    visitStructure(errors, property, { level: 'field', path: `${path}.properties[${name}]` });
  if (schema.additionalProperties !== undefined && level === 'root')
    errors.push(fieldForbidden(`${path}.additionalProperties`, 'must not be used at the root'));
  const additional = additionalPropertiesSchema(schema);
  if (additional !== undefined) visitStructure(errors, additional, { level: 'field', path: `${path}.additionalProperties` });
  validateIntOrString(errors, schema, path);
  const { type = '' } = schema;
  const embedded = schema['x-kubernetes-embedded-resource'] === true;
  const preserves = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const either = schema['x-kubernetes-int-or-string'] === true;
  visitJunctors(errors, schema, {
    path,
    skipAnyOf: jsonEqual(schema.anyOf, eitherType),
    skipFirst: jsonEqual(schema.allOf?.[0]?.anyOf, eitherType),
  });
  if (embedded && type !== 'object') {
    const detail = 'must be object if x-kubernetes-embedded-resource is true';
    errors.push(type === '' ? required(`${path}.type`, detail) : invalid(`${path}.type`, type, detail));
  } else if (type === '' && !either && !preserves) errors.push(required(`${path}.type`, unnamed[level]));
  if (embedded && schema.additionalProperties !== undefined)
    errors.push(fieldForbidden(`${path}.additionalProperties`, 'must not be used if x-kubernetes-embedded-resource is set'));
  if (level === 'root' && type !== '' && type !== 'object') errors.push(invalid(`${path}.type`, type, 'must be object at the root'));
  const count = Object.keys(schema.properties ?? {}).length;
  if (embedded && count === 0 && !preserves)
    errors.push(
      required(
        `${path}.properties`,
        'must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields',
      ),
    );
  if (level === 'root' || embedded) validateObjectRoot(errors, schema, { level, path });
}

/** Validates the declarations of apiVersion, kind and metadata at the root of an object or of an embedded object. */
function validateObjectRoot(errors: Errors, { properties = {} }: JSONSchemaProps, { level, path }: StructureLocation): void {
  for (const name of ['kind', 'apiVersion']) {
    const type = properties[name]?.type;
    if (properties[name] !== undefined && type !== 'string')
      errors.push(invalid(`${path}.properties[${name}].type`, type ?? '', 'must be string'));
  }
  const { metadata } = properties;
  if (metadata === undefined) return;
  const at = `${path}.properties[metadata]`;
  if (metadata.type !== 'object') errors.push(invalid(`${at}.type`, metadata.type ?? '', 'must be object'));
  if (level === 'root' && !restrictsNamesOnly(metadata))
    errors.push(fieldForbidden(at, 'must not specify anything other than name and generateName, but metadata is implicitly specified'));
}

/** Returns true if a schema of metadata restricts only `name` and `generateName`. Its default is rejected elsewhere. */
function restrictsNamesOnly({ type: _type, default: _default, properties = {}, ...others }: JSONSchemaProps): boolean {
  return (
    Object.keys(properties).every((name) => name === 'name' || name === 'generateName') &&
    Object.values(others).every((value) => isZero(value))
  );
}
const isZero = (value: unknown): boolean =>
  value === undefined || value === '' || value === false || value === 0 || (Array.isArray(value) && value.length === 0);

function validateIntOrString(errors: Errors, schema: JSONSchemaProps, path: string): void {
  if (schema['x-kubernetes-int-or-string'] !== true) return;
  for (const name of ['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-embedded-resource'] as const)
    if (schema[name] === true) errors.push(invalid(`${path}.${name}`, true, 'must be false if x-kubernetes-int-or-string is true'));
}

interface JunctorLocation {
  readonly path: string;
  /** True if `anyOf` is the construct of x-kubernetes-int-or-string, which may declare types. */
  readonly skipAnyOf: boolean;
  /** True if `allOf[0].anyOf` is the construct of x-kubernetes-int-or-string, which may declare types. */
  readonly skipFirst: boolean;
}

function visitJunctors(errors: Errors, schema: JSONSchemaProps, { path, skipAnyOf, skipFirst }: JunctorLocation): void {
  for (const junctor of junctors) {
    for (const [i, part] of (schema[junctor] ?? []).entries()) {
      if (junctor === 'anyOf' && skipAnyOf) continue;
      const isSkipped = junctor === 'allOf' && i === 0 && skipFirst;
      validateJunctor(errors, part, { path: `${path}.${junctor}[${i}]`, skipAnyOf: isSkipped });
    }
  }
  if (schema.not !== undefined) validateJunctor(errors, schema.not, { path: `${path}.not`, skipAnyOf: false });
}

/** The keywords that schemas inside of allOf, anyOf, oneOf and not must not have, and the word of upstream's message. */
const forbiddenInNested = [
  ['type', 'empty'],
  ['additionalProperties', 'undefined'],
  ['default', 'undefined'],
  ['title', 'empty'],
  ['description', 'empty'],
  ['externalDocs', 'undefined'],
  ['x-kubernetes-list-map-keys', 'empty'],
  ['x-kubernetes-list-type', 'undefined'],
  ['x-kubernetes-map-type', 'undefined'],
  ['x-kubernetes-validations', 'empty'],
] as const;
const falseInNested = [
  'nullable',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-embedded-resource',
  'x-kubernetes-int-or-string',
] as const;
/** Validates a schema inside of allOf, anyOf, oneOf or not, which may restrict values but not declare structure. */
function validateJunctor(errors: Errors, schema: JSONSchemaProps, { path, skipAnyOf }: Omit<JunctorLocation, 'skipFirst'>): void {
  for (const [name, word] of forbiddenInNested) {
    const value = schema[name];
    const isEmpty = value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
    if (!isEmpty) errors.push(fieldForbidden(`${path}.${name}`, `must be ${word} to be structural`));
  }
  for (const name of falseInNested)
    if (schema[name] === true) errors.push(fieldForbidden(`${path}.${name}`, 'must be false to be structural'));
  const items = itemSchema(schema.items);
  if (items !== undefined) validateJunctor(errors, items, { path: `${path}.items`, skipAnyOf: false });
  const { properties = {} } = schema;
  for (const [name, property] of Object.entries(properties))
    validateJunctor(errors, property, { path: `${path}.properties[${name}]`, skipAnyOf: false });
  if (Object.hasOwn(properties, 'metadata'))
    errors.push(fieldForbidden(`${path}.properties[metadata]`, 'must not be specified in a nested context'));
  visitJunctors(errors, schema, { path, skipAnyOf, skipFirst: false });
}

interface CompletenessLocation {
  /** The path of the restricting schema inside of the junctor. */
  readonly path: string;
  /** The path at which the property must be declared. */
  readonly specPath: string;
}

/**
 * Validates that every property and list that a junctor at the root restricts is declared outside of it. Upstream does not validate the junctors of
 * properties.
 */
function validateCompleteness(errors: Errors, schema: JSONSchemaProps, rootPath: string): void {
  const visitParts = (spec: JSONSchemaProps, value: JSONSchemaProps, { path, specPath }: CompletenessLocation) => {
    if (value.not !== undefined) visit(spec, value.not, { path: `${path}.not`, specPath });
    for (const junctor of junctors)
      for (const [i, part] of (value[junctor] ?? []).entries()) visit(spec, part, { path: `${path}.${junctor}[${i}]`, specPath });
  };
  const visit = (spec: JSONSchemaProps | undefined, value: JSONSchemaProps, { path, specPath }: CompletenessLocation) => {
    if (spec === undefined) {
      errors.push(required(specPath, `because it is defined in ${path}`));
      return;
    }
    visitParts(spec, value, { path, specPath });
    const items = itemSchema(value.items);
    if (items !== undefined) visit(itemSchema(spec.items), items, { path: `${path}.items`, specPath: `${specPath}.items` });
    for (const [name, property] of Object.entries(value.properties ?? {}))
      visit(spec.properties?.[name], property, { path: `${path}.properties[${name}]`, specPath: `${specPath}.properties[${name}]` });
  };
  visitParts(schema, schema, { path: rootPath, specPath: rootPath });
}
