import { duplicate, fieldForbidden, invalid, required, tooLong } from '../field/field-error.ts';
import type { Condition, LabelSelector } from '../generated/types/meta-v1.ts';
import { isDns1123Label, isLabelValue, isQualifiedName, asPrefix, type NameRule } from '../values/names.ts';
import type { ManagedFieldsEntry, ObjectMeta, OwnerReference } from '../object.ts';
import { parseApiVersion } from '../kinds.ts';
import {
  validateOptionalEnum,
  validateImmutable,
  addInvalid,
  validateNonNegative,
  validateQualifiedName,
  validateNonEmpty,
  type Errors,
  repeatedIndexes,
} from './internal/checks.ts';

/** The maximum sum of all annotation keys and values of an object in bytes. */
export const maxAnnotationsSize = 256 * 1024;

export function validateLabels(errors: Errors, path: string, values: Readonly<Record<string, string>> | undefined): void {
  for (const [key, value] of Object.entries(values ?? {})) {
    validateQualifiedName(errors, path, key);
    addInvalid(errors, path, value, isLabelValue(value));
  }
}

export function validateAnnotations(errors: Errors, path: string, values: Readonly<Record<string, string>> | undefined): void {
  let size = 0;
  for (const [key, value] of Object.entries(values ?? {})) {
    addInvalid(errors, path, key, isQualifiedName(key.toLowerCase()));
    size += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (size > maxAnnotationsSize) errors.push(tooLong(path, maxAnnotationsSize));
}

export function validateLabelSelector(errors: Errors, path: string, selector: LabelSelector | undefined): void {
  if (selector === undefined) return;
  validateLabels(errors, `${path}.matchLabels`, selector.matchLabels);
  for (const [i, { key = '', operator, values = [] }] of (selector.matchExpressions ?? []).entries()) {
    const at = `${path}.matchExpressions[${i}]`;
    if (operator === 'In' || operator === 'NotIn') {
      if (values.length === 0) errors.push(required(`${at}.values`, "must be specified when `operator` is 'In' or 'NotIn'"));
    } else if (operator === 'Exists' || operator === 'DoesNotExist') {
      if (values.length > 0)
        errors.push(fieldForbidden(`${at}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    } else errors.push(invalid(`${at}.operator`, operator, 'not a valid selector operator'));
    validateQualifiedName(errors, `${at}.key`, key);
    for (const [j, value] of values.entries()) addInvalid(errors, `${at}.values[${j}]`, value, isLabelValue(value));
  }
}

function validateOwnerReferences(errors: Errors, path: string, refs: readonly OwnerReference[]): void {
  let controller: string | undefined;
  for (const ref of refs) {
    const { version } = parseApiVersion(ref.apiVersion ?? '');
    if (version === '') errors.push(invalid(`${path}.apiVersion`, ref.apiVersion ?? '', 'version must not be empty'));
    for (const key of ['kind', 'name', 'uid'] as const)
      if (!ref[key]) errors.push(invalid(`${path}.${key}`, ref[key] ?? '', 'must not be empty'));
    if (ref.apiVersion === 'v1' && ref.kind === 'Event')
      errors.push(invalid(path, ref, '/v1, Kind=Event is disallowed from being an owner'));
    if (ref.controller !== true) continue;
    const name = `${ref.kind}/${ref.name}`;
    if (controller === undefined) controller = name;
    else
      errors.push(
        invalid(path, refs, `Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${name}`),
      );
  }
}

const standardFinalizers = ['kubernetes', 'orphan', 'foregroundDeletion'];
export function validateFinalizerName(errors: Errors, path: string, name: string): void {
  if (!name.includes('/') && !standardFinalizers.includes(name))
    errors.push(invalid(path, name, 'name is neither a standard finalizer name nor is it fully qualified'));
}
/** Validates a finalizer name. Finalizers of custom resources need not be standard or qualified. */
export type FinalizerRule = (errors: Errors, path: string, name: string) => void;
function validateFinalizers(errors: Errors, path: string, names: readonly string[], rule: FinalizerRule): void {
  for (const name of names) validateQualifiedName(errors, path, name);
  if (names.includes('orphan') && names.includes('foregroundDeletion')) {
    errors.push(invalid(path, names, 'finalizer orphan and foregroundDeletion cannot be both set'));
  }
  for (const [i, name] of names.entries()) rule(errors, `${path}[${i}]`, name);
}

/** @returns warnings for clients, for kinds that accept any qualified name */
export function finalizerWarnings(names: readonly string[]): readonly string[] {
  return names
    .filter((name) => !name.includes('/') && !standardFinalizers.includes(name))
    .map(
      (name) =>
        `metadata.finalizers: ${JSON.stringify(name)}: prefer a domain-qualified finalizer name${name.includes('.') ? ' including a path (/)' : ''} to avoid accidental conflicts with other finalizer writers`,
    );
}

const printableAscii = /^[ -~]*$/;
export function validateFieldManager(errors: Errors, path: string, manager: string): void {
  if (manager.length <= 128 && printableAscii.test(manager)) return;
  if (Buffer.byteLength(manager) > 128) errors.push(tooLong(path, 128));
  let at = 0;
  for (const char of manager) {
    if (/\p{C}|(?! )\p{Z}/u.test(char))
      errors.push(
        invalid(
          path,
          manager,
          `invalid character U+${char.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')} (at position ${at})`,
        ),
      );
    at += Buffer.byteLength(char);
  }
}
function validateManagedFields(errors: Errors, path: string, entries: readonly ManagedFieldsEntry[]): void {
  for (const [i, { operation, fieldsType = '', manager = '', subresource = '' }] of entries.entries()) {
    if (operation !== 'Apply' && operation !== 'Update')
      errors.push(invalid(`${path}[${i}].operation`, operation ?? '', 'must be `Apply` or `Update`'));
    if (fieldsType !== '' && fieldsType !== 'FieldsV1') errors.push(invalid(`${path}[${i}].fieldsType`, fieldsType, 'must be `FieldsV1`'));
    validateFieldManager(errors, `${path}[${i}].manager`, manager);
    if (subresource.length > 256) errors.push(tooLong(`${path}[${i}].subresource`, 256));
  }
}

/** Validates metadata with the rules that apply on create and on update. */
function validateCommon(errors: Errors, path: string, meta: ObjectMeta, rule: FinalizerRule): void {
  validateNonNegative(errors, `${path}.generation`, meta.generation);
  validateLabels(errors, `${path}.labels`, meta.labels);
  validateAnnotations(errors, `${path}.annotations`, meta.annotations);
  validateOwnerReferences(errors, `${path}.ownerReferences`, meta.ownerReferences ?? []);
  validateFinalizers(errors, `${path}.finalizers`, meta.finalizers ?? [], rule);
  validateManagedFields(errors, `${path}.managedFields`, meta.managedFields ?? []);
}

/** Validates the metadata of a new object, whose name has been generated if necessary. */
export function validateObjectMeta(
  errors: Errors,
  meta: ObjectMeta,
  namespaced: boolean,
  rule: NameRule,
  path = 'metadata',
  finalizer: FinalizerRule = validateFinalizerName,
): void {
  const { name = '', generateName = '', namespace = '' } = meta;
  if (generateName !== '') addInvalid(errors, `${path}.generateName`, generateName, asPrefix(rule)(generateName));
  if (name === '') errors.push(required(`${path}.name`, 'name or generateName is required'));
  else addInvalid(errors, `${path}.name`, name, rule(name));
  if (!namespaced) {
    if (namespace !== '') errors.push(fieldForbidden(`${path}.namespace`, 'not allowed on this type'));
  } else if (namespace === '') errors.push(required(`${path}.namespace`));
  else addInvalid(errors, `${path}.namespace`, namespace, isDns1123Label(namespace));
  validateCommon(errors, path, meta, finalizer);
}

export function validateObjectMetaUpdate(
  errors: Errors,
  meta: ObjectMeta,
  old: ObjectMeta,
  path = 'metadata',
  finalizer: FinalizerRule = validateFinalizerName,
): void {
  if (old.deletionTimestamp !== undefined) {
    const kept = new Set(old.finalizers);
    const extra = (meta.finalizers ?? []).filter((name) => !kept.has(name)).sort();
    if (extra.length > 0) {
      errors.push(
        fieldForbidden(
          `${path}.finalizers`,
          `no new finalizers can be added if the object is being deleted, found new finalizers []string{${extra.map((name) => JSON.stringify(name)).join(', ')}}`,
        ),
      );
    }
  }
  if (!meta.resourceVersion) errors.push(invalid(`${path}.resourceVersion`, meta.resourceVersion ?? '', 'must be specified for an update'));
  if ((meta.generation ?? 0) < (old.generation ?? 0))
    errors.push(invalid(`${path}.generation`, meta.generation ?? 0, 'must not be decremented'));
  for (const key of ['name', 'namespace', 'uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'] as const) {
    validateImmutable(errors, `${path}.${key}`, meta[key] ?? undefined, old[key] ?? undefined);
  }
  validateCommon(errors, path, meta, finalizer);
}

const conditionReason = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;
/** Validates `metav1.Condition` lists, which newer kinds have in their status. */
export function validateConditions(errors: Errors, path: string, list: readonly Condition[]): void {
  const repeated = new Set(repeatedIndexes(list, ({ type }) => type));
  for (const [i, condition] of list.entries()) {
    const at = `${path}[${i}]`;
    if (repeated.has(i)) errors.push(duplicate(`${at}.type`, condition.type));
    validateQualifiedName(errors, `${at}.type`, condition.type ?? '');
    validateOptionalEnum(errors, `${at}.status`, condition.status ?? '', ['True', 'False', 'Unknown']);
    validateNonEmpty(errors, `${at}.lastTransitionTime`, condition.lastTransitionTime, 'must be set');
    validateNonEmpty(errors, `${at}.reason`, condition.reason, 'must be set');
    if (condition.reason && !conditionReason.test(condition.reason)) {
      errors.push(
        invalid(
          `${at}.reason`,
          condition.reason,
          `a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')`,
        ),
      );
    }
    if (Buffer.byteLength(condition.message ?? '') > 32 * 1024) errors.push(tooLong(`${at}.message`, 32 * 1024));
  }
}
