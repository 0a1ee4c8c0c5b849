import { fieldForbidden, invalid, required } from '../../../field/field-error.ts';
import type { PersistentVolume, PersistentVolumeClaim } from '../../../generated/types/core-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { compareQuantity, parseQuantity } from '../../../values/quantity.ts';
import { validateNodeSelector } from './affinity.ts';
import { validateDNSSubdomain, validateOptionalEnum, validateImmutable, isNotPositive, validateNonEmpty, type Errors } from '../checks.ts';
import { validateAccessModeSet, validateClaimSpec } from './claim-spec.ts';
import { diff } from '../diff.ts';
import { validateCSIDriverName, validateHostPath, validateNFS } from './volumes.ts';

export function validatePersistentVolumeClaim(errors: Errors, claim: PersistentVolumeClaim, old?: PersistentVolumeClaim): void {
  validateClaimSpec(errors, 'spec', claim.spec ?? {});
  if (old === undefined) return;
  const strip = ({ spec = {} }: PersistentVolumeClaim, bound: boolean) => {
    const { volumeName: _, resources = {}, volumeAttributesClassName, storageClassName, ...rest } = spec;
    const { storage: _storage, ...requests } = resources.requests ?? {};
    return {
      ...rest,
      resources: { ...resources, requests: bound ? requests : (resources.requests ?? {}) },
      ...(!bound && volumeAttributesClassName !== undefined && { volumeAttributesClassName }),
      ...(old.spec?.storageClassName !== undefined && { storageClassName }),
      ...(old.spec?.volumeName && { volumeName: spec.volumeName }),
    };
  };
  const bound = claim.status?.phase === 'Bound';
  if (!jsonEqual(strip(claim, bound), strip(old, bound))) {
    errors.push(
      fieldForbidden(
        'spec',
        `spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n${diff(strip(old, bound), strip(claim, bound))}`,
      ),
    );
  }
  const [size, before] = [claim.spec?.resources?.requests?.['storage'] ?? '0', old.spec?.resources?.requests?.['storage'] ?? '0'];
  if (compareQuantity(size, before) < 0 && compareQuantity(size, old.status?.capacity?.['storage'] ?? '0') <= 0) {
    errors.push(fieldForbidden('spec.resources.requests.storage', 'field can not be less than status.capacity'));
  }
}

const volumeSettings = new Set([
  'accessModes',
  'capacity',
  'claimRef',
  'mountOptions',
  'nodeAffinity',
  'persistentVolumeReclaimPolicy',
  'storageClassName',
  'volumeAttributesClassName',
  'volumeMode',
]);
export function validatePersistentVolume(errors: Errors, { spec = {} }: PersistentVolume, old?: PersistentVolume): void {
  if ((spec.accessModes ?? []).length === 0) errors.push(required('spec.accessModes'));
  validateAccessModeSet(errors, 'spec.accessModes', spec.accessModes ?? []);
  const capacity = Object.entries(spec.capacity ?? {});
  if (capacity.length === 0) errors.push(required('spec.capacity'));
  if (capacity.length !== 1 || spec.capacity?.['storage'] === undefined)
    errors.push({
      type: 'FieldValueNotSupported',
      field: 'spec.capacity',
      message: `Unsupported value: ${JSON.stringify(spec.capacity ?? {})}: supported values: "storage"`,
    });
  for (const [name, quantity] of capacity)
    if (parseQuantity(quantity).sign <= 0)
      errors.push(invalid(`spec.capacity[${name}]`, parseQuantity(quantity).toString(), isNotPositive));
  validateOptionalEnum(errors, 'spec.persistentVolumeReclaimPolicy', spec.persistentVolumeReclaimPolicy, ['Delete', 'Recycle', 'Retain']);
  if (spec.nodeAffinity !== undefined) {
    if (spec.nodeAffinity.required === undefined)
      errors.push(required('spec.nodeAffinity.required', 'must specify required node constraints'));
    else validateNodeSelector(errors, 'spec.nodeAffinity.required', spec.nodeAffinity.required);
  }
  const sources = (value: PersistentVolume['spec']) =>
    Object.fromEntries(Object.entries(value ?? {}).filter(([key]) => !volumeSettings.has(key)));
  const sourceNames = Object.keys(sources(spec));
  if (sourceNames.length === 0) errors.push(required('spec', 'must specify a volume type'));
  for (const kind of sourceNames.slice(1)) errors.push(fieldForbidden(`spec.${kind}`, 'may not specify more than 1 volume type'));
  if (spec.hostPath !== undefined) validateHostPath(errors, 'spec.hostPath', spec.hostPath);
  if (spec.persistentVolumeReclaimPolicy === 'Recycle' && /^\/+\.?$/.test(spec.hostPath?.path ?? ''))
    errors.push(fieldForbidden('spec.persistentVolumeReclaimPolicy', "may not be 'recycle' for a hostPath mount of '/'"));
  if (spec.nfs !== undefined) validateNFS(errors, 'spec.nfs', spec.nfs);
  if (spec.local !== undefined) {
    validateNonEmpty(errors, 'spec.local.path', spec.local.path);
    if (spec.nodeAffinity === undefined) errors.push(required('spec.nodeAffinity', 'Local volume requires node affinity'));
  }
  if (spec.csi !== undefined) {
    validateCSIDriverName(errors, 'spec.csi.driver', spec.csi.driver ?? '');
    validateNonEmpty(errors, 'spec.csi.volumeHandle', spec.csi.volumeHandle);
  }
  if (spec.storageClassName) validateDNSSubdomain(errors, 'spec.storageClassName', spec.storageClassName);
  validateOptionalEnum(errors, 'spec.volumeMode', spec.volumeMode, ['Block', 'Filesystem']);
  if (old === undefined) return;
  if (!jsonEqual(sources(spec), sources(old.spec)))
    errors.push(
      fieldForbidden(
        'spec.persistentvolumesource',
        `spec.persistentvolumesource is immutable after creation\n${diff(sources(old.spec), sources(spec))}`,
      ),
    );
  validateImmutable(errors, 'volumeMode', spec.volumeMode, old.spec?.volumeMode);
}
