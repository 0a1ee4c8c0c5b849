import { storedVersionErrors } from './storage-version.ts';
import { invalid, required, type FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import { isDns1035Label, isDns1123Subdomain } from '@oarlock/api/values/names';
import type {
  CustomResourceDefinition,
  CustomResourceDefinitionNames,
  CustomResourceDefinitionVersion,
} from '@oarlock/api/types/apiextensions-v1';
import { apiApprovalOf } from './api-approval.ts';
import { isTrue } from './conditions.ts';
import { validateConversion } from './conversion-validation.ts';
import { oneOfErrors, requireNonEmpty, validateLabel } from './field-checks.ts';
import { creationRequirements, updateRequirements } from './schema-requirements.ts';
import { commonFieldsOf, validateCommonFields, validateVersion } from './version-validation.ts';

type Errors = FieldError[];

const scopes = ['Cluster', 'Namespaced'];

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

/** Validates an update. Unchanged schemas are not validated again, changed ones by the rules that the old definition obeys. */
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

function validateSpec(errors: Errors, definition: CustomResourceDefinition, old?: CustomResourceDefinition): void {
  const { spec } = definition;
  if (spec === undefined) return;
  const { group, scope, versions = [], names, conversion } = spec;
  if (requireNonEmpty(errors, 'spec.group', group)) {
    const wrong = isDns1123Subdomain(group);
    if (wrong.length > 0) errors.push(invalid('spec.group', group, wrong.join(',')));
    else if (!group.includes('.')) errors.push(invalid('spec.group', group, 'should be a domain with at least one dot'));
  }
  errors.push(...oneOfErrors('spec.scope', scope, scopes));
  const common = commonFieldsOf(versions);
  const requirements = old === undefined ? creationRequirements : updateRequirements(definition, old);
  const before = (version: CustomResourceDefinitionVersion) => old?.spec.versions.find(({ name }) => name === version.name);
  for (const [i, version] of versions.entries())
    errors.push(...validateVersion(version, `spec.versions[${i}]`, { old: before(version), common, requirements }));
  if (new Set(versions.map(({ name }) => name)).size < versions.length)
    errors.push(invalid('spec.versions', withoutSchemas(versions), 'must contain unique version names'));
  if (versions.filter(({ storage }) => storage).length !== 1)
    errors.push(invalid('spec.versions', withoutSchemas(versions), 'must have exactly one version marked as storage version'));
  if (names !== undefined) validateNames(errors, names, 'spec.names');
  const [first] = versions;
  if (first !== undefined) errors.push(...validateCommonFields(first, common, { old: before(first), requirements }));
  if (conversion !== undefined) errors.push(...validateConversion(conversion, 'spec.conversion', requirements));
}

/** Removes the schemas from versions in error messages, which they would make very long. */
const withoutSchemas = (versions: readonly CustomResourceDefinitionVersion[]) =>
  versions.map(({ name, served, storage }) => ({ name, served, storage }));

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
