import { fieldForbidden, invalid, notSupported, notSupportedInOrder, required } from '../../../field/field-error.ts';
import type { PersistentVolumeClaim, PersistentVolumeClaimSpec } from '../../../generated/types/core-v1.ts';
import type { Quantity } from '../../../generated/types/meta-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { isQualifiedName } from '../../../values/names.ts';
import { compareQuantity, parseQuantity } from '../../../values/quantity.ts';
import { isNativeResource } from '../../resources.ts';
import { addInvalid, isImmutable, validateImmutable, type Errors } from '../checks.ts';
import { claimSpecDiff } from '../spec-diff/spec-diff.ts';
import { validateClaimSpec } from './claim-spec.ts';

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const classOf = (claim: PersistentVolumeClaim) => claim.metadata?.annotations?.[classAnnotation];

export function validatePersistentVolumeClaim(errors: Errors, claim: PersistentVolumeClaim, old?: PersistentVolumeClaim): void {
  validateClaimSpec(errors, 'spec', { spec: claim.spec ?? {}, old: old?.spec });
  if (old !== undefined) validateUpdate(errors, claim, old);
}

/** Returns true if an update may set the storage class, which the stored claim names in the deprecated annotation, if at all. */
function setsStorageClass(claim: PersistentVolumeClaim, old: PersistentVolumeClaim): boolean {
  const name = claim.spec?.storageClassName;
  const annotated = classOf(old);
  return name !== undefined && old.spec?.storageClassName === undefined && (annotated === undefined || annotated === name);
}

/** Returns the new spec with the old values of the fields that may change. */
function withMutableFields(claim: PersistentVolumeClaim, old: PersistentVolumeClaim): PersistentVolumeClaimSpec {
  const { storageClassName, volumeAttributesClassName, resources, ...rest } = claim.spec ?? {};
  const isBound = claim.status?.phase === 'Bound';
  const storage = old.spec?.resources?.requests?.['storage'];
  const requests = { ...resources?.requests, ...(isBound && storage !== undefined && { storage }) };
  const className = setsStorageClass(claim, old) ? undefined : storageClassName;
  const attributes = isBound ? old.spec?.volumeAttributesClassName : volumeAttributesClassName;
  return {
    ...rest,
    ...(resources !== undefined && { resources: { ...resources, ...(resources.requests !== undefined && { requests }) } }),
    ...(className !== undefined && { storageClassName: className }),
    ...(attributes !== undefined && { volumeAttributesClassName: attributes }),
  };
}

const quantities = (list: Readonly<Record<string, Quantity>> = {}) =>
  Object.fromEntries(Object.entries(list).map(([name, quantity]) => [name, String(parseQuantity(quantity).nanos)]));

/** Returns the spec in the form in which equal specs are equal: quantities compare by value, empty lists and maps are absent. */
function comparable({ resources, accessModes, ...rest }: PersistentVolumeClaimSpec): unknown {
  return { ...rest, accessModes: accessModes ?? [], limits: quantities(resources?.limits), requests: quantities(resources?.requests) };
}

/** Validates an update (ValidatePersistentVolumeClaimUpdate upstream). */
function validateUpdate(errors: Errors, claim: PersistentVolumeClaim, old: PersistentVolumeClaim): void {
  const spec = claim.spec ?? {};
  const before = old.spec ?? {};
  const { volumeName } = spec;
  // the volume is named once
  const named = before.volumeName ? before : { ...before, ...(volumeName !== undefined && { volumeName }) };
  const upgrades = classOf(old) !== undefined && setsStorageClass(claim, old) && [undefined, classOf(old)].includes(classOf(claim));
  if (!upgrades && (classOf(claim) ?? '') !== (classOf(old) ?? ''))
    errors.push(invalid(`metadata.annotations.${classAnnotation}`, classOf(claim) ?? '', isImmutable));
  const masked = withMutableFields(claim, old);
  if (!jsonEqual(comparable(masked), comparable(named)))
    errors.push(
      fieldForbidden(
        'spec',
        `spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n${claimSpecDiff(named, masked)}`,
      ),
    );
  const [size, oldSize] = [spec.resources?.requests?.['storage'] ?? '0', before.resources?.requests?.['storage'] ?? '0'];
  // a failed expansion can be given up
  if (compareQuantity(size, oldSize) < 0 && compareQuantity(size, old.status?.capacity?.['storage'] ?? '0') <= 0)
    errors.push(fieldForbidden('spec.resources.requests.storage', 'field can not be less than status.capacity'));
  validateImmutable(errors, 'volumeMode', spec.volumeMode, before.volumeMode);
  if (before.volumeAttributesClassName === spec.volumeAttributesClassName || old.status?.currentVolumeAttributesClassName === undefined)
    return;
  if (!spec.volumeAttributesClassName)
    errors.push(
      fieldForbidden(
        'spec.volumeAttributesClassName',
        `update to ${spec.volumeAttributesClassName === undefined ? 'nil' : 'empty string'} is forbidden when status.currentVolumeAttributesClassName is not nil`,
      ),
    );
}

const resizeStatuses = [
  'ControllerResizeInProgress',
  'ControllerResizeInfeasible',
  'NodeResizePending',
  'NodeResizeInProgress',
  'NodeResizeInfeasible',
].sort();

function validateResourceKey(errors: Errors, path: string, name: string): boolean {
  const messages = isQualifiedName(name);
  addInvalid(errors, path, name, messages);
  const isUnknown = messages.length === 0 && isNativeResource(name) && name !== 'storage';
  if (isUnknown) errors.push(notSupported(path, name, ['storage']));
  return messages.length === 0 && !isUnknown;
}

function validateQuantity(errors: Errors, path: string, quantity: Quantity): void {
  const amount = parseQuantity(quantity);
  if (amount.sign < 0) errors.push(invalid(path, amount.scaled(1), 'must be a valid resource quantity'));
}

/** Validates an update of the status (ValidatePersistentVolumeClaimStatusUpdate upstream, with its spelling of paths). */
export function validatePersistentVolumeClaimStatus(errors: Errors, { spec, status = {} }: PersistentVolumeClaim): void {
  if ((spec?.accessModes ?? []).length === 0) errors.push(required('Spec.accessModes'));
  for (const [name, quantity] of Object.entries(status.capacity ?? {})) validateQuantity(errors, `status.capacity[${name}]`, quantity);
  for (const [name, value] of Object.entries(status.allocatedResourceStatuses ?? {})) {
    validateResourceKey(errors, 'status.allocatedResourceStatus', name);
    // upstream reports the name of the resource, not its status
    if (!resizeStatuses.includes(value)) errors.push(notSupportedInOrder('status.allocatedResourceStatus', name, resizeStatuses));
  }
  for (const [name, quantity] of Object.entries(status.allocatedResources ?? {}))
    if (validateResourceKey(errors, 'status.allocatedResources', name))
      validateQuantity(errors, `status.allocatedResources[${name}]`, quantity);
}
