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
  const anyOfSkipped = either && jsonEqual(schema.anyOf, eitherType);
  const firstSkipped = either && !anyOfSkipped && jsonEqual(schema.allOf?.[0]?.anyOf, eitherType);
  visitJunctors(errors, schema, { path, skipAnyOf: anyOfSkipped, skipFirst: firstSkipped, isObjectRoot: level === 'root' || embedded });
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
  if (level === 'root' || embedded) validateObjectRoot(errors, schema, path);
}

/** Validates the declarations of apiVersion, kind and metadata at the root of an object. */
function validateObjectRoot(errors: Errors, { properties = {} }: JSONSchemaProps, path: string): void {
  for (const name of ['kind', 'apiVersion']) {
    const type = properties[name]?.type;
    if (properties[name] !== undefined && type !== 'string')
      errors.push(invalid(`${path}.properties[${name}].type`, type ?? '', 'must be string'));
  }
  const { metadata } = properties;
  if (metadata === undefined) return;
  const at = `${path}.properties[metadata]`;
  if (metadata.type !== 'object') errors.push(invalid(`${at}.type`, metadata.type ?? '', 'must be object'));
  const allowed = ['name', 'generateName'];
  const other =
    Object.keys(metadata.properties ?? {}).some((name) => !allowed.includes(name)) ||
    metadata.additionalProperties !== undefined ||
    metadata['x-kubernetes-preserve-unknown-fields'] === true ||
    metadata['x-kubernetes-embedded-resource'] === true ||
    metadata.default !== undefined;
  if (other)
    errors.push(fieldForbidden(at, 'must not specify anything other than name and generateName, but metadata is implicitly specified'));
}

function validateIntOrString(errors: Errors, schema: JSONSchemaProps, path: string): void {
  if (schema['x-kubernetes-int-or-string'] !== true) return;
  if (schema.type !== undefined && schema.type !== '')
    errors.push(invalid(`${path}.type`, schema.type, 'must be empty if x-kubernetes-int-or-string is true'));
  for (const name of ['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-embedded-resource'] as const)
    if (schema[name] === true) errors.push(invalid(`${path}.${name}`, true, 'must be false if x-kubernetes-int-or-string is true'));
}

interface JunctorLocation {
  readonly path: string;
  /** True if `anyOf` is the construct that x-kubernetes-int-or-string allows, and therefore not validated. */
  readonly skipAnyOf: boolean;
  /** True if `allOf[0].anyOf` is the construct that x-kubernetes-int-or-string allows, and therefore not validated. */
  readonly skipFirst: boolean;
  /** True for the schema of an object with apiVersion, kind and metadata. */
  readonly isObjectRoot: boolean;
}

function visitJunctors(errors: Errors, schema: JSONSchemaProps, { path, skipAnyOf, skipFirst, isObjectRoot }: JunctorLocation): void {
  for (const junctor of junctors) {
    for (const [i, part] of (schema[junctor] ?? []).entries()) {
      if (junctor === 'anyOf' && skipAnyOf) continue;
      const isSkipped = junctor === 'allOf' && i === 0 && skipFirst;
      validateJunctor(errors, part, { path: `${path}.${junctor}[${i}]`, skipAnyOf: isSkipped, isObjectRoot });
    }
  }
  if (schema.not !== undefined) validateJunctor(errors, schema.not, { path: `${path}.not`, skipAnyOf: false, isObjectRoot });
}

const undefinedInNested = ['title', 'description', 'type', 'default'] as const;
const falseInNested = [
  'nullable',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-embedded-resource',
  'x-kubernetes-int-or-string',
] as const;
const emptyInNested = [
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
] as const;

/** Validates a schema inside of allOf, anyOf, oneOf or not, which may restrict values but not declare structure. */
function validateJunctor(
  errors: Errors,
  schema: JSONSchemaProps,
  { path, skipAnyOf, isObjectRoot }: Omit<JunctorLocation, 'skipFirst'>,
): void {
  for (const name of undefinedInNested) {
    if (skipAnyOf && name === 'type') continue;
    const value = schema[name];
    if (value === undefined || value === '') continue;
    errors.push(
      fieldForbidden(`${path}.${name}`, name === 'default' ? 'must be undefined to be structural' : 'must be empty to be structural'),
    );
  }
  for (const name of falseInNested)
    if (schema[name] === true) errors.push(fieldForbidden(`${path}.${name}`, 'must be false to be structural'));
  for (const name of emptyInNested)
    if (schema[name] !== undefined) errors.push(fieldForbidden(`${path}.${name}`, 'must be undefined to be structural'));
  if (schema.additionalProperties !== undefined)
    errors.push(fieldForbidden(`${path}.additionalProperties`, 'must be undefined to be structural'));
  const items = itemSchema(schema.items);
  if (items !== undefined) validateJunctor(errors, items, { path: `${path}.items`, skipAnyOf: false, isObjectRoot: false });
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (isObjectRoot && name === 'metadata')
      errors.push(fieldForbidden(`${path}.properties[metadata]`, 'must not be specified in a nested context'));
    else validateJunctor(errors, property, { path: `${path}.properties[${name}]`, skipAnyOf: false, isObjectRoot: false });
  }
  visitJunctors(errors, schema, { path, skipAnyOf, skipFirst: false, isObjectRoot });
}

interface CompletenessLocation {
  /** The path of the restricting schema inside of the junctor. */
  readonly path: string;
  /** The path at which the property must be declared. */
  readonly specPath: string;
}

/** Validates that every property that a schema inside of allOf, anyOf, oneOf or not restricts is declared outside of it. */
function validateCompleteness(errors: Errors, schema: JSONSchemaProps, rootPath: string): void {
  const visit = (spec: JSONSchemaProps, value: JSONSchemaProps, { path, specPath }: CompletenessLocation) => {
    const items = itemSchema(value.items);
    if (items !== undefined) {
      const specItems = itemSchema(spec.items);
      if (specItems === undefined) errors.push(required(`${specPath}.items`, `because it is defined in ${path}.items`));
      else visit(specItems, items, { path: `${path}.items`, specPath: `${specPath}.items` });
    }
    for (const [name, property] of Object.entries(value.properties ?? {})) {
      const declared = spec.properties?.[name];
      const child: CompletenessLocation = { path: `${path}.properties[${name}]`, specPath: `${specPath}.properties[${name}]` };
      if (declared !== undefined) visit(declared, property, child);
      else if (additionalPropertiesSchema(spec) === undefined && spec['x-kubernetes-preserve-unknown-fields'] !== true)
        errors.push(required(child.specPath, `because it is defined in ${child.path}`));
    }
    for (const junctor of junctors)
      for (const [i, part] of (value[junctor] ?? []).entries()) visit(spec, part, { path: `${path}.${junctor}[${i}]`, specPath });
    if (value.not !== undefined) visit(spec, value.not, { path: `${path}.not`, specPath });
  };
  visit(schema, schema, { path: rootPath, specPath: rootPath });
}
