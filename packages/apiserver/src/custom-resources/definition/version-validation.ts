import { duplicate, fieldForbidden, invalid, notSupported, required, tooMany, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import type {
  CustomResourceColumnDefinition,
  CustomResourceDefinitionVersion,
  CustomResourceSubresourceScale,
  JSONSchemaProps,
} from '@oarlock/api/types/apiextensions-v1';
import { validateRuleDefinitions } from '../cel/rule-validation.ts';
import { oneOfErrors, requireNonEmpty, validateLabel } from './field-checks.ts';
import { validateDefaults } from './schema-defaults.ts';
import type { SchemaRequirements } from './schema-requirements.ts';
import { validateStructuralSchema } from './schema-validation.ts';
import { validateStructure } from './structural-schema-validation.ts';

type Errors = FieldError[];

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

/** The fields that a definition's versions can have in common. Upstream keeps common fields once, and names them so in errors. */
const commonFields = {
  schema: 'spec.validation',
  subresources: 'spec.subresources',
  additionalPrinterColumns: 'spec.additionalPrinterColumns',
  selectableFields: 'spec.selectableFields',
} as const;
type CommonField = keyof typeof commonFields;

/** Returns the fields that are equal in all versions. */
export function commonFieldsOf([first, ...others]: readonly CustomResourceDefinitionVersion[]): ReadonlySet<CommonField> {
  const isCommon = (name: CommonField) => others.every((version) => jsonEqual(version[name], first?.[name]));
  return new Set((Object.keys(commonFields) as CommonField[]).filter(isCommon));
}

interface VersionContext {
  /** The version of the same name before the update. */
  readonly old: CustomResourceDefinitionVersion | undefined;
  readonly requirements: SchemaRequirements;
}

/** Validates one version of a definition, except the fields that all versions have in common. */
export function validateVersion(
  version: CustomResourceDefinitionVersion,
  path: string,
  { old, common, requirements }: VersionContext & { readonly common: ReadonlySet<CommonField> },
): Errors {
  const errors: Errors = [];
  const { name, served, deprecated, deprecationWarning, schema } = version;
  if (requireNonEmpty(errors, `${path}.name`, name)) validateLabel(errors, `${path}.name`, name);
  if (deprecationWarning !== undefined)
    validateDeprecationWarning(errors, { deprecated, deprecationWarning }, `${path}.deprecationWarning`);
  const { schemas } = requirements;
  if (schema?.openAPIV3Schema === undefined && (schemas === 'all' || (schemas === 'served' && served)))
    errors.push(
      required(`${path}.schema.openAPIV3Schema`, schemas === 'all' ? 'schemas are required' : 'because otherwise all fields are pruned'),
    );
  const pathOf = (field: CommonField) => (common.has(field) ? undefined : `${path}.${field}`);
  return [...errors, ...validateFields(version, pathOf, { old, requirements })];
}

/** Validates the fields that all versions have in common. */
export function validateCommonFields(
  version: CustomResourceDefinitionVersion,
  common: ReadonlySet<CommonField>,
  context: VersionContext,
): Errors {
  return validateFields(version, (field) => (common.has(field) ? commonFields[field] : undefined), context);
}

/** Validates the fields of a version for which `pathOf` returns a path. The schema is validated only if it changed. */
function validateFields(
  version: CustomResourceDefinitionVersion,
  pathOf: (field: CommonField) => string | undefined,
  { old, requirements }: VersionContext,
): Errors {
  const errors: Errors = [];
  const { schema, subresources, additionalPrinterColumns = [] } = version;
  const root = schema?.openAPIV3Schema;
  const isChanged = old === undefined || !jsonEqual(old.schema, schema) || !jsonEqual(old.subresources?.status, subresources?.status);
  const paths = {
    schema: pathOf('schema'),
    subresources: pathOf('subresources'),
    columns: pathOf('additionalPrinterColumns'),
    selectableFields: pathOf('selectableFields'),
  };
  if (paths.schema !== undefined && root !== undefined && isChanged)
    errors.push(
      ...(subresources?.status === undefined ? [] : statusSchemaErrors(root, `${paths.schema}.openAPIV3Schema`)),
      ...validateSchema(root, `${paths.schema}.openAPIV3Schema`, { old: old?.schema?.openAPIV3Schema, requirements }),
    );
  if (paths.subresources !== undefined && subresources?.scale !== undefined)
    validateScale(errors, subresources.scale, `${paths.subresources}.scale`);
  if (paths.columns !== undefined)
    for (const [i, column] of additionalPrinterColumns.entries()) validateColumn(errors, column, `${paths.columns}[${i}]`);
  if (paths.selectableFields !== undefined) validateSelectableFields(errors, version, paths.selectableFields);
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
  if (selectableFields.length > maxSelectableFields) errors.push(tooMany(path, selectableFields.length, maxSelectableFields));
  const seen = new Set<string>();
  for (const [i, { jsonPath }] of selectableFields.entries()) {
    const at = `${path}[${i}].jsonPath`;
    if (!requireNonEmpty(errors, at, jsonPath)) continue;
    const wrong = selectableError(jsonPath, root);
    if (wrong !== undefined) errors.push(invalid(at, jsonPath, wrong));
    if (seen.has(jsonPath)) errors.push(duplicate(at, jsonPath));
    seen.add(jsonPath);
  }
}

/** Parses a simple path such as `.spec.replicas` into property names; returns undefined for any other path. */
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

/** Validates the root schema of a version that has a status subresource. */
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

interface SchemaContext {
  /** The schema of the version before the update. */
  readonly old: JSONSchemaProps | undefined;
  readonly requirements: SchemaRequirements;
}

function validateSchema(schema: JSONSchemaProps, path: string, { old, requirements }: SchemaContext): Errors {
  const errors: Errors = [];
  if (schema.nullable === true) errors.push(fieldForbidden(`${path}.nullable`, 'nullable cannot be true at the root'));
  const before = errors.length;
  errors.push(...validateStructuralSchema(schema, path, requirements), ...(requirements.structure ? validateStructure(schema, path) : []));
  // defaults and rules work with structural schemas only
  if (errors.length > before || !requirements.structure) return errors;
  return [
    ...errors,
    ...validateDefaults(schema, path, { pruned: requirements.prunedDefaults }),
    ...validateRuleDefinitions(schema, path, { old, stored: requirements.expressions }),
  ];
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
