import { duplicate, fieldForbidden, invalid, notSupportedInOrder, required, tooMany } from '../../field/field-error.ts';
import type {
  CSIDriver,
  CSINode,
  CSINodeDriver,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttachmentSpec,
  VolumeAttributesClass,
} from '../../generated/types/storage-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { isDns1123Subdomain, isQualifiedName } from '../../values/names.ts';
import { parseQuantity } from '../../values/quantity.ts';
import { validateOptionalEnum, validateImmutable, isImmutable, addInvalid, isNegative, validateEnum, type Errors } from './checks.ts';
import { validateLabelSelector } from '../meta.ts';
import { validateInlineVolume } from './core/persistent-volumes.ts';
import { validateCSIDriverName } from './core/volumes.ts';

const maxParameters = 512;
const maxParametersSize = 256 * 1024;

function validateProvisioner(errors: Errors, path: string, name: string): void {
  if (name === '') errors.push(required(path, name));
  else addInvalid(errors, path, name, isQualifiedName(name.toLowerCase()));
}

function validateParameters(errors: Errors, values: Readonly<Record<string, string>> | undefined, allowEmpty: boolean): void {
  const entries = Object.entries(values ?? {});
  let size = 0;
  for (const [key, value] of entries) {
    if (key === '') errors.push(invalid('parameters', key, 'field can not be empty.'));
    size += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (entries.length > maxParameters)
    errors.push({
      ...tooMany('parameters', entries.length, maxParameters),
      type: 'FieldValueTooLong',
      message: `Too long: may not be more than ${maxParameters} bytes`,
    });
  if (size > maxParametersSize)
    errors.push({ type: 'FieldValueTooLong', field: 'parameters', message: `Too long: may not be more than ${maxParametersSize} bytes` });
  if (entries.length === 0 && !allowEmpty) errors.push(required('parameters', 'must contain at least one key/value pair'));
}

export function validateStorageClass(errors: Errors, value: StorageClass, old?: StorageClass): void {
  validateProvisioner(errors, 'provisioner', value.provisioner ?? '');
  validateParameters(errors, value.parameters, true);
  if (value.reclaimPolicy) validateOptionalEnum(errors, 'reclaimPolicy', value.reclaimPolicy, ['Delete', 'Retain']);
  validateEnum(errors, 'volumeBindingMode', value.volumeBindingMode, ['Immediate', 'WaitForFirstConsumer']);
  for (const [i, { matchLabelExpressions = [] }] of (value.allowedTopologies ?? []).entries()) {
    const keys = new Set<string>();
    for (const [j, { key = '', values = [] }] of matchLabelExpressions.entries()) {
      const at = `allowedTopologies[${i}].matchLabelExpressions[${j}]`;
      if (values.length === 0) errors.push(required(`${at}.values`));
      addInvalid(errors, `${at}.key`, key, isQualifiedName(key));
      if (keys.has(key)) errors.push(duplicate(`${at}.key`, key));
      keys.add(key);
    }
  }
  if (old === undefined) return;
  if (!jsonEqual(value.parameters ?? {}, old.parameters ?? {}))
    errors.push(fieldForbidden('parameters', 'updates to parameters are forbidden.'));
  if (value.provisioner !== old.provisioner) errors.push(fieldForbidden('provisioner', 'updates to provisioner are forbidden.'));
  if (value.reclaimPolicy !== old.reclaimPolicy) errors.push(fieldForbidden('reclaimPolicy', 'updates to reclaimPolicy are forbidden.'));
  validateImmutable(errors, 'volumeBindingMode', value.volumeBindingMode, old.volumeBindingMode);
}

export function validateVolumeAttributesClass(errors: Errors, value: VolumeAttributesClass, old?: VolumeAttributesClass): void {
  if (old !== undefined) {
    if (value.driverName !== old.driverName) errors.push(fieldForbidden('driverName', 'updates to driverName are forbidden.'));
    if (!jsonEqual(value.parameters ?? {}, old.parameters ?? {}))
      errors.push(fieldForbidden('parameters', 'updates to parameters are forbidden.'));
  }
  validateProvisioner(errors, 'driverName', value.driverName ?? '');
  validateParameters(errors, value.parameters, false);
}

export function validateCSIDriver(errors: Errors, { spec = {} }: CSIDriver, old?: CSIDriver): void {
  // upstream's path has this typo
  if (spec.attachRequired === undefined) errors.push(required('spec.attachedRequired'));
  for (const mode of spec.volumeLifecycleModes ?? [])
    if (mode !== 'Persistent' && mode !== 'Ephemeral')
      errors.push(notSupportedInOrder('spec.volumeLifecycleModes', mode, ['Persistent', 'Ephemeral']));
  validateOptionalEnum(errors, 'spec.fsGroupPolicy', spec.fsGroupPolicy, ['File', 'None', 'ReadWriteOnceWithFSType']);
  const audiences = new Set<string>();
  for (const [i, { audience = '', expirationSeconds }] of (spec.tokenRequests ?? []).entries()) {
    const at = `spec.tokenRequests[${i}]`;
    if (audiences.has(audience)) {
      errors.push(duplicate(`${at}.audience`, audience));
      continue;
    }
    audiences.add(audience);
    if (expirationSeconds !== undefined && expirationSeconds < 600)
      errors.push(invalid(`${at}.expirationSeconds`, expirationSeconds, 'may not specify a duration less than 10 minutes'));
    if (expirationSeconds !== undefined && expirationSeconds > 2 ** 32)
      errors.push(invalid(`${at}.expirationSeconds`, expirationSeconds, 'may not specify a duration larger than 2^32 seconds'));
  }
  const period = spec.nodeAllocatableUpdatePeriodSeconds;
  if (period !== undefined && period < 10)
    errors.push(invalid('spec.nodeAllocatableUpdatePeriodSeconds', period, 'must be greater than or equal to 10 seconds'));
  if (old === undefined) return;
  validateImmutable(errors, 'spec.attachedRequired', spec.attachRequired, old.spec?.attachRequired);
  validateImmutable(errors, 'spec.volumeLifecycleModes', spec.volumeLifecycleModes, old.spec?.volumeLifecycleModes);
}

/** Returns the driver as upstream prints it: with the fields of the internal type, which are named as in Go, and without the mutable one. */
const internalDriver = ({ name, nodeID, topologyKeys }: CSINodeDriver) => ({
  Name: name,
  NodeID: nodeID,
  TopologyKeys: topologyKeys ?? null,
  Allocatable: null,
});

export function validateCSINode(errors: Errors, { spec }: CSINode, old?: CSINode): void {
  const drivers = spec?.drivers ?? [];
  const names = new Set<string>();
  for (const [i, { name = '', nodeID = '', topologyKeys = [], allocatable }] of drivers.entries()) {
    const at = `spec.drivers[${i}]`;
    validateCSIDriverName(errors, `${at}.name`, name);
    if (nodeID === '') errors.push(required(`${at}.nodeID`, nodeID));
    else if (Buffer.byteLength(nodeID) > 192) errors.push(invalid(`${at}.nodeID`, nodeID, 'must be 192 characters or less'));
    if (allocatable?.count !== undefined && allocatable.count < 0)
      errors.push(invalid(`${at}.allocatable.count`, allocatable.count, isNegative));
    if (names.has(name)) errors.push(duplicate(`${at}.name`, name));
    names.add(name);
    // upstream reports topology keys under the path of the driver
    const keys = new Set<string>();
    for (const key of topologyKeys) {
      if (key === '') errors.push(required(at, key));
      if (keys.has(key)) errors.push(duplicate(at, key));
      keys.add(key);
      addInvalid(errors, at, key, isQualifiedName(key));
    }
  }
  const driverByName = new Map(drivers.map((driver) => [driver.name, driver]));
  for (const before of old?.spec?.drivers ?? []) {
    const now = driverByName.get(before.name);
    if (now !== undefined && !jsonEqual({ ...now, allocatable: undefined }, { ...before, allocatable: undefined }))
      errors.push(invalid('spec.drivers', internalDriver(now), isImmutable));
  }
}

/** Returns the spec as upstream prints it, except for inline volumes: with the fields of the internal type, which are named as in Go. */
const internalAttachment = ({ attacher, nodeName, source }: VolumeAttachmentSpec) => ({
  Attacher: attacher,
  Source: { PersistentVolumeName: source.persistentVolumeName ?? null, InlineVolumeSpec: source.inlineVolumeSpec ?? null },
  NodeName: nodeName,
});

export function validateVolumeAttachment(errors: Errors, { spec }: VolumeAttachment, old?: VolumeAttachment): void {
  const { attacher = '', nodeName = '', source } = spec ?? {};
  if (old !== undefined) {
    if (!jsonEqual(spec, old.spec)) errors.push(invalid('spec', internalAttachment(spec), isImmutable));
    return;
  }
  validateCSIDriverName(errors, 'spec.attacher', attacher);
  const { persistentVolumeName, inlineVolumeSpec } = source ?? {};
  if (persistentVolumeName === undefined && inlineVolumeSpec === undefined)
    errors.push(required('spec.source', 'must specify exactly one of inlineVolumeSpec and persistentVolumeName'));
  if (persistentVolumeName !== undefined && inlineVolumeSpec !== undefined)
    errors.push(fieldForbidden('spec.source', 'must specify exactly one of inlineVolumeSpec and persistentVolumeName'));
  if (persistentVolumeName === '') errors.push(required('spec.source.persistentVolumeName', 'must specify non empty persistentVolumeName'));
  if (persistentVolumeName === undefined && inlineVolumeSpec !== undefined)
    validateInlineVolume(errors, 'spec.source.inlineVolumeSpec', inlineVolumeSpec);
  if (nodeName === '') errors.push(required('spec.nodeName', nodeName));
  else addInvalid(errors, 'spec.nodeName', nodeName, isDns1123Subdomain(nodeName));
}

export function validateCSIStorageCapacity(errors: Errors, value: CSIStorageCapacity, old?: CSIStorageCapacity): void {
  const { storageClassName = '', nodeTopology } = value;
  addInvalid(errors, 'storageClassName', storageClassName, isDns1123Subdomain(storageClassName));
  validateLabelSelector(errors, 'nodeTopology', nodeTopology);
  for (const key of ['capacity', 'maximumVolumeSize'] as const) {
    const quantity = value[key];
    if (quantity !== undefined && parseQuantity(quantity).sign < 0)
      errors.push(invalid(key, parseQuantity(quantity).toString(), isNegative));
  }
  if (old === undefined) return;
  validateImmutable(errors, 'nodeTopology', nodeTopology, old.nodeTopology);
  validateImmutable(errors, 'storageClassName', storageClassName, old.storageClassName);
}
