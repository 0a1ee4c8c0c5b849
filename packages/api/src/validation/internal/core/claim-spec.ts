import { fieldForbidden, invalid, required } from '../../../field/field-error.ts';
import type { PersistentVolumeClaimSpec } from '../../../generated/types/core-v1.ts';
import { parseQuantity } from '../../../values/quantity.ts';
import { validateDNSLabel, validateDNSSubdomain, validateOptionalEnum, isNotPositive, validateNonEmpty, type Errors } from '../checks.ts';
import { validateLabelSelector } from '../../meta.ts';
import { validateResourceQuantity } from '../../resources.ts';

const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
/** The spec of a claim, and on update that of the stored claim. */
export interface ClaimSpecs {
  readonly spec: PersistentVolumeClaimSpec;
  readonly old?: PersistentVolumeClaimSpec | undefined;
}

/** Validates the spec of a claim. An API group of a source is not validated if the old spec has one. */
export function validateClaimSpec(errors: Errors, path: string, { spec, old }: ClaimSpecs): void {
  const modes = spec.accessModes ?? [];
  if (modes.length === 0) errors.push(required(`${path}.accessModes`, 'at least 1 access mode is required'));
  validateLabelSelector(errors, `${path}.selector`, spec.selector);
  validateAccessModeSet(errors, `${path}.accessModes`, modes);
  const storage = spec.resources?.requests?.['storage'];
  const at = `${path}.resources[storage]`;
  if (storage === undefined) errors.push(required(at));
  else if (parseQuantity(storage).sign <= 0) errors.push(invalid(at, parseQuantity(storage).toString(), isNotPositive));
  else validateResourceQuantity(errors, at, 'storage', storage);
  if (spec.storageClassName) validateDNSSubdomain(errors, `${path}.storageClassName`, spec.storageClassName);
  validateOptionalEnum(errors, `${path}.volumeMode`, spec.volumeMode, ['Block', 'Filesystem']);
  const hadGroup = [old?.dataSource, old?.dataSourceRef].some((source) => source?.apiGroup !== undefined);
  for (const key of ['dataSource', 'dataSourceRef'] as const) {
    const source = spec[key];
    if (source === undefined) continue;
    validateNonEmpty(errors, `${path}.${key}.name`, source.name);
    validateNonEmpty(errors, `${path}.${key}.kind`, source.kind);
    if (!source.apiGroup && source.kind !== 'PersistentVolumeClaim')
      errors.push(invalid(`${path}.${key}`, source.kind ?? '', "must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
    if (source.apiGroup && !hadGroup) validateDNSSubdomain(errors, `${path}.${key}.apiGroup`, source.apiGroup);
  }
  validateSources(errors, path, spec);
  if (spec.volumeAttributesClassName) validateDNSSubdomain(errors, `${path}.volumeAttributesClassName`, spec.volumeAttributesClassName);
}

/** Requires the two fields for the source of the data to name the same object. */
function validateSources(errors: Errors, path: string, { dataSource, dataSourceRef }: PersistentVolumeClaimSpec): void {
  if (dataSourceRef?.namespace) validateDNSLabel(errors, `${path}.dataSourceRef.namespace`, dataSourceRef.namespace);
  if (dataSource === undefined || dataSourceRef === undefined) return;
  // upstream prints its path object, which has no public fields, as the value
  if (dataSourceRef.namespace) errors.push(invalid(path, {}, 'may not be specified when dataSourceRef.namespace is specified'));
  else if ((['apiGroup', 'kind', 'name'] as const).some((field) => dataSource[field] !== dataSourceRef[field]))
    errors.push(invalid(path, {}, 'must match dataSourceRef'));
}

export function validateAccessModeSet(errors: Errors, path: string, modes: readonly string[]): void {
  for (const access of modes) validateOptionalEnum(errors, path, access, accessModes);
  if (modes.includes('ReadWriteOncePod') && modes.some((access) => access !== 'ReadWriteOncePod' && accessModes.includes(access))) {
    errors.push(fieldForbidden(path, 'may not use ReadWriteOncePod with other access modes'));
  }
}
