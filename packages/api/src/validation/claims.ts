import { fieldForbidden, invalid, required } from '../field-error.ts';
import type { PersistentVolumeClaimSpec } from '../generated/types/core-v1.ts';
import { parseQuantity } from '../quantity.ts';
import { dnsSubdomain, ifOneOf, isNotPositive, requireText, type Errors } from './checks.ts';
import { labelSelector } from './meta.ts';
import { resourceQuantity } from './resources.ts';

const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
export function claimSpec(errors: Errors, path: string, spec: PersistentVolumeClaimSpec): void {
  const modes = spec.accessModes ?? [];
  if (modes.length === 0) errors.push(required(`${path}.accessModes`, 'at least 1 access mode is required'));
  labelSelector(errors, `${path}.selector`, spec.selector);
  accessModeSet(errors, `${path}.accessModes`, modes);
  const storage = spec.resources?.requests?.['storage'];
  const at = `${path}.resources[storage]`;
  if (storage === undefined) errors.push(required(at));
  else if (parseQuantity(storage).sign <= 0) errors.push(invalid(at, parseQuantity(storage).toString(), isNotPositive));
  else resourceQuantity(errors, at, 'storage', storage);
  if (spec.storageClassName) dnsSubdomain(errors, `${path}.storageClassName`, spec.storageClassName);
  ifOneOf(errors, `${path}.volumeMode`, spec.volumeMode, ['Block', 'Filesystem']);
  for (const key of ['dataSource', 'dataSourceRef'] as const) {
    const source = spec[key];
    if (source === undefined) continue;
    requireText(errors, `${path}.${key}.name`, source.name);
    requireText(errors, `${path}.${key}.kind`, source.kind);
    if (!source.apiGroup && source.kind !== 'PersistentVolumeClaim')
      errors.push(invalid(`${path}.${key}`, source.kind ?? '', "must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
    if (source.apiGroup) dnsSubdomain(errors, `${path}.${key}.apiGroup`, source.apiGroup);
  }
  if (spec.volumeAttributesClassName) dnsSubdomain(errors, `${path}.volumeAttributesClassName`, spec.volumeAttributesClassName);
}
export function accessModeSet(errors: Errors, path: string, modes: readonly string[]): void {
  for (const access of modes) ifOneOf(errors, path, access, accessModes);
  if (modes.includes('ReadWriteOncePod') && modes.some((access) => access !== 'ReadWriteOncePod' && accessModes.includes(access))) {
    errors.push(fieldForbidden(path, 'may not use ReadWriteOncePod with other access modes'));
  }
}
