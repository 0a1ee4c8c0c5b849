import { duplicate, fieldForbidden, invalid, notSupported, required, tooMany, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import { isDns1035Label, isDns1123Subdomain } from '@oarlock/api/values/names';
import type {
  CustomResourceColumnDefinition,
  CustomResourceDefinition,
  CustomResourceDefinitionNames,
  CustomResourceDefinitionVersion,
  CustomResourceSubresourceScale,
  JSONSchemaProps,
} from '@oarlock/api/types/apiextensions-v1';
import { apiApprovalOf } from './api-approval.ts';
import { isTrue } from './conditions.ts';
import { validateConversion } from './conversion-validation.ts';
import { validateRuleDefinitions } from '../cel/rule-validation.ts';
import { validateDefaults, validateStructuralSchema } from './schema-validation.ts';
import { validateStructure } from './structural-schema-validation.ts';

type Errors = FieldError[];

const scopes = ['Cluster', 'Namespaced'];
const columnTypes = ['boolean', 'date', 'integer', 'number', 'string'];
const columnFormats = ['byte', 'date', 'date-time', 'double', 'float', 'int32', 'int64', 'password'];
const maxSelectableFields = 8;
const rootFields = new Set([
  'description',
  'type',
  'format',
  'title',
  'maximum',
  'exclusiveMaximum',
  'minimum',
  'exclusiveMinimum',
  'maxLength',
  'minLength',
  'pattern',
  'maxItems',
  'minItems',
  'uniqueItems',
  'multipleOf',
  'required',
  'items',
  'properties',
  'externalDocs',
  'example',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-validations',
]);

/** Rejects empty required fields; the schema of the kind reports absent ones. */
function requireNonEmpty(errors: Errors, path: string, value: string | undefined): boolean {
  if (value === '') errors.push(required(path));
  return value !== undefined && value !== '';
}
/** Returns the error of a value that is not one of the allowed values; an absent value is valid. */
function oneOfErrors(path: string, value: string | undefined, allowed: readonly string[]): Errors {
  if (value === '') return [required(path)];
  return value === undefined || allowed.includes(value) ? [] : [notSupported(path, value, allowed)];
}

/** Validates a new definition, except its metadata and absent required fields. */
export function validateDefinition(definition: CustomResourceDefinition): readonly FieldError[] {
  const errors: Errors = [];
  const { name = '' } = definition.metadata ?? {};
  const { group = '', names } = definition.spec ?? {};
  const nameErrors = name === '' ? [] : [...isDns1123Subdomain(name)];
  if (name !== '' && name !== `${names?.plural ?? ''}.${group}`) nameErrors.push('must be spec.names.plural+"."+spec.group');
  for (const detail of nameErrors) errors.push(invalid('metadata.name', name, detail));
  validateSpec(errors, definition);
  errors.push(...approvalErrors(definition, undefined));
  if (definition.spec?.preserveUnknownFields === true) errors.push(preservesAll());
  return errors;
}

const preservesAll = (): FieldError =>
  invalid(
    'spec.preserveUnknownFields',
    true,
    'cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead',
  );

/** Validates an update; schema errors that the old definition already has are tolerated. */
export function validateDefinitionUpdate(definition: CustomResourceDefinition, old: CustomResourceDefinition): readonly FieldError[] {
  const errors: Errors = [];
  validateSpec(errors, definition, old);
  const { spec } = definition;
  const unchanged = (path: string, value: unknown, before: unknown) => {
    if (!jsonEqual(value, before)) errors.push(invalid(path, value, 'field is immutable'));
  };
  if (isTrue(old, 'Established')) {
    unchanged('spec.scope', spec.scope, old.spec.scope);
    unchanged('spec.names.kind', spec.names?.kind, old.spec.names?.kind);
  }
  unchanged('spec.group', spec.group, old.spec.group);
  unchanged('spec.names.plural', spec.names?.plural, old.spec.names?.plural);
  errors.push(...storedVersionErrors(definition), ...approvalErrors(definition, old));
  if (spec.preserveUnknownFields === true && old.spec.preserveUnknownFields !== true) errors.push(preservesAll());
  return errors;
}

/** Validates status.storedVersions, also on updates of the status. */
export function storedVersionErrors({ spec, status }: CustomResourceDefinition): readonly FieldError[] {
  const path = 'status.storedVersions';
  const stored = status?.storedVersions ?? [];
  if (stored.length === 0) return [invalid(path, stored, 'must have at least one stored version')];
  const versions = (spec.versions ?? []).map(({ name }) => name);
  return stored.flatMap((name, i) => (versions.includes(name) ? [] : [invalid(`${path}[${i}]`, name, 'must appear in spec.versions')]));
}

/** Validates that definitions in Kubernetes' own groups are approved (KEP-1111). */
function approvalErrors(definition: CustomResourceDefinition, old: CustomResourceDefinition | undefined): readonly FieldError[] {
  const approval = apiApprovalOf(definition);
  if (approval === undefined || approval.status !== 'refused') return [];
  const before = old && apiApprovalOf(old);
  // definitions from before the policy may be updated
  if (before?.status === 'refused') return [];
  const path = 'metadata.annotations[api-approved.kubernetes.io]';
  return approval.reason === 'MissingAnnotation' ? [required(path, approval.message)] : [invalid(path, approval.value, approval.message)];
}

function validateSpec(errors: Errors, { spec }: CustomResourceDefinition, old?: CustomResourceDefinition): void {
  if (spec === undefined) return;
  const { group, scope, versions = [], names, conversion } = spec;
  if (requireNonEmpty(errors, 'spec.group', group)) {
    const wrong = isDns1123Subdomain(group);
    if (wrong.length > 0) errors.push(invalid('spec.group', group, wrong.join(',')));
    else if (!group.includes('.')) errors.push(invalid('spec.group', group, 'should be a domain with at least one dot'));
  }
  errors.push(...oneOfErrors('spec.scope', scope, scopes));
  for (const [i, version] of versions.entries()) {
    const before = old?.spec.versions.find(({ name }) => name === version.name);
    errors.push(...validateVersion(version, `spec.versions[${i}]`, before));
  }
  if (new Set(versions.map(({ name }) => name)).size < versions.length)
    errors.push(invalid('spec.versions', withoutSchemas(versions), 'must contain unique version names'));
  if (versions.filter(({ storage }) => storage).length !== 1)
    errors.push(invalid('spec.versions', withoutSchemas(versions), 'must have exactly one version marked as storage version'));
  if (names !== undefined) validateNames(errors, names, 'spec.names');
  if (conversion !== undefined) errors.push(...validateConversion(conversion, 'spec.conversion'));
}

/** Removes the schemas from versions in error messages, which they would make very long. */
const withoutSchemas = (versions: readonly CustomResourceDefinitionVersion[]) =>
  versions.map(({ name, served, storage }) => ({ name, served, storage }));

function validateLabel(errors: Errors, path: string, value: string | undefined): void {
  if (value === undefined || value === '') return;
  const wrong = isDns1035Label(value);
  if (wrong.length > 0) errors.push(invalid(path, value, wrong.join(',')));
}

function validateMixedCaseLabel(errors: Errors, path: string, value: string | undefined): void {
  if (value === undefined || value === '') return;
  const wrong = isDns1035Label(value.toLowerCase());
  if (wrong.length > 0) errors.push(invalid(path, value, `may have mixed case, but should otherwise match: ${wrong.join(',')}`));
}

function validateNames(errors: Errors, names: CustomResourceDefinitionNames, path: string): void {
  const { plural, singular, kind, listKind, shortNames = [], categories = [] } = names;
  requireNonEmpty(errors, `${path}.plural`, plural);
  requireNonEmpty(errors, `${path}.singular`, singular);
  requireNonEmpty(errors, `${path}.kind`, kind);
  requireNonEmpty(errors, `${path}.listKind`, listKind);
  validateLabel(errors, `${path}.plural`, plural);
  validateLabel(errors, `${path}.singular`, singular);
  validateMixedCaseLabel(errors, `${path}.kind`, kind);
  validateMixedCaseLabel(errors, `${path}.listKind`, listKind);
  for (const [i, name] of shortNames.entries()) validateLabel(errors, `${path}.shortNames[${i}]`, name);
  if (kind !== undefined && kind !== '' && kind === listKind)
    errors.push(invalid(`${path}.listKind`, listKind, 'kind and listKind may not be the same'));
  for (const [i, name] of categories.entries()) validateLabel(errors, `${path}.categories[${i}]`, name);
}

function validateVersion(version: CustomResourceDefinitionVersion, path: string, old: CustomResourceDefinitionVersion | undefined): Errors {
  const errors: Errors = [];
  const { name, deprecated, deprecationWarning, schema, subresources, additionalPrinterColumns = [] } = version;
  if (requireNonEmpty(errors, `${path}.name`, name)) validateLabel(errors, `${path}.name`, name);
  if (deprecationWarning !== undefined)
    validateDeprecationWarning(errors, { deprecated, deprecationWarning }, `${path}.deprecationWarning`);
  const root = schema?.openAPIV3Schema;
  if (root === undefined) errors.push(required(`${path}.schema.openAPIV3Schema`, 'schemas are required'));
  else if (old === undefined || !jsonEqual(old.schema, schema) || !jsonEqual(old.subresources?.status, subresources?.status))
    errors.push(
      ...(subresources?.status === undefined ? [] : statusSchemaErrors(root, `${path}.schema.openAPIV3Schema`)),
      ...validateSchema(root, `${path}.schema.openAPIV3Schema`, old?.schema?.openAPIV3Schema),
    );
  if (subresources?.scale !== undefined) validateScale(errors, subresources.scale, `${path}.subresources.scale`);
  for (const [i, column] of additionalPrinterColumns.entries()) validateColumn(errors, column, `${path}.additionalPrinterColumns[${i}]`);
  validateSelectableFields(errors, version, path);
  return errors;
}

function validateDeprecationWarning(
  errors: Errors,
  { deprecated, deprecationWarning }: { readonly deprecated: boolean | undefined; readonly deprecationWarning: string },
  at: string,
): void {
  if (deprecated !== true) errors.push(invalid(at, deprecationWarning, 'can only be set for deprecated versions'));
  if (deprecationWarning.length > 256) errors.push(invalid(at, deprecationWarning, 'must be <= 256 characters long'));
  if (deprecationWarning === '') errors.push(invalid(at, deprecationWarning, 'must not be empty if specified'));
  const nonPrintable = [...deprecationWarning].findIndex((char) => /\p{C}|(?! )\p{Z}/u.test(char));
  if (nonPrintable >= 0)
    errors.push(
      invalid(
        at,
        deprecationWarning,
        `must only contain printable UTF-8 characters; non-printable character found at index ${nonPrintable}`,
      ),
    );
}

function validateSelectableFields(errors: Errors, { selectableFields = [], schema }: CustomResourceDefinitionVersion, path: string): void {
  const root = schema?.openAPIV3Schema;
  if (selectableFields.length > maxSelectableFields)
    errors.push(tooMany(`${path}.selectableFields`, selectableFields.length, maxSelectableFields));
  const seen = new Set<string>();
  for (const [i, { jsonPath }] of selectableFields.entries()) {
    const at = `${path}.selectableFields[${i}].jsonPath`;
    if (!requireNonEmpty(errors, at, jsonPath)) continue;
    const wrong = selectableError(jsonPath, root);
    if (wrong !== undefined) errors.push(invalid(at, jsonPath, wrong));
    if (seen.has(jsonPath)) errors.push(duplicate(at, jsonPath));
    seen.add(jsonPath);
  }
}

/** Parses a simple path such as `.spec.replicas`; returns undefined for any other path. */
function simplePath(path: string): readonly string[] | undefined {
  const names = path.split('.').slice(1);
  return path.startsWith('.') && names.length > 0 && names.every((name) => /^[A-Za-z_$][\w$-]*$/.test(name)) ? names : undefined;
}

function selectableError(path: string, root: JSONSchemaProps | undefined): string | undefined {
  const names = simplePath(path);
  if (names === undefined) return 'is an invalid path: must be a simple json path starting with .';
  if (names[0] === 'metadata') return 'must not point to fields in metadata';
  let schema = root;
  for (const name of names)
    schema = schema?.properties !== undefined && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
  if (schema === undefined) return `is an invalid path: does not refer to a valid field`;
  return ['string', 'boolean', 'integer'].includes(schema.type ?? '')
    ? undefined
    : 'must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.';
}

/** Validates the root schema of a version with a status subresource. */
function statusSchemaErrors(schema: JSONSchemaProps, path: string): Errors {
  const errors: Errors = [];
  if (schema.type !== undefined && schema.type !== 'object')
    errors.push(
      invalid(
        `${path}.type`,
        schema.type,
        'only "object" is allowed as the type at the root of the schema if the status subresource is enabled',
      ),
    );
  if (Object.keys(schema).some((name) => !rootFields.has(name)))
    errors.push(
      invalid(
        path,
        Object.keys(schema).filter((name) => !rootFields.has(name)),
        `only ${JSON.stringify([...rootFields])} fields are allowed at the root of the schema if the status subresource is enabled`,
      ),
    );
  return errors;
}

function validateSchema(schema: JSONSchemaProps, path: string, old: JSONSchemaProps | undefined): Errors {
  const errors: Errors = [];
  if (schema.nullable === true) errors.push(fieldForbidden(`${path}.nullable`, 'nullable cannot be true at the root'));
  const before = errors.length;
  errors.push(...validateStructuralSchema(schema, path), ...validateStructure(schema, path));
  if (errors.length > before) return errors;
  return [...errors, ...validateDefaults(schema, path), ...validateRuleDefinitions(schema, path, old)];
}

function simplePathError(errors: Errors, path: string, value: string): boolean {
  if (value.startsWith('.')) return true;
  errors.push(invalid(path, value, 'must be a simple json path starting with .'));
  return false;
}

function validateScale(errors: Errors, scale: CustomResourceSubresourceScale, path: string): void {
  const check = (name: keyof CustomResourceSubresourceScale, prefixes: readonly string[], detail: string) => {
    const value = scale[name];
    const at = `${path}.${name}`;
    if (value === undefined || (value === '' && name === 'labelSelectorPath') || !requireNonEmpty(errors, at, value)) return;
    if (simplePathError(errors, at, value) && !prefixes.some((prefix) => value.startsWith(prefix))) errors.push(invalid(at, value, detail));
  };
  check('specReplicasPath', ['.spec.'], 'should be a json path under .spec');
  check('statusReplicasPath', ['.status.'], 'should be a json path under .status');
  check('labelSelectorPath', ['.spec.', '.status.'], 'should be a json path under either .spec or .status');
}

function validateColumn(errors: Errors, { name, type, format, jsonPath }: CustomResourceColumnDefinition, path: string): void {
  requireNonEmpty(errors, `${path}.name`, name);
  errors.push(...oneOfErrors(`${path}.type`, type, columnTypes));
  if (format !== undefined && format !== '' && !columnFormats.includes(format))
    errors.push(notSupported(`${path}.format`, format, columnFormats));
  if (requireNonEmpty(errors, `${path}.jsonPath`, jsonPath)) simplePathError(errors, `${path}.jsonPath`, jsonPath);
}
