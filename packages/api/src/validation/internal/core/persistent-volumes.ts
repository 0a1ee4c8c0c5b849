import { fieldForbidden, invalid, required } from '../../../field/field-error.ts';
import type {
  CSIPersistentVolumeSource,
  PersistentVolume,
  PersistentVolumeSpec,
  VolumeNodeAffinity,
} from '../../../generated/types/core-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { parseQuantity } from '../../../values/quantity.ts';
import { validateNodeSelector } from './affinity.ts';
import { validateDNSSubdomain, validateOptionalEnum, validateImmutable, isNotPositive, validateNonEmpty, type Errors } from '../checks.ts';
import { validateAccessModeSet } from './claim-spec.ts';
import { volumeSourceDiff } from '../spec-diff/spec-diff.ts';
import { validateSecretReference, validateVolumeSource } from './volume-sources.ts';
import { validateCSIDriverName } from './volumes.ts';

/** The sources in the order in which upstream validates them. Only the first one that is set is validated. */
const sourceOrder = [
  'hostPath',
  'gcePersistentDisk',
  'awsElasticBlockStore',
  'glusterfs',
  'flocker',
  'nfs',
  'rbd',
  'quobyte',
  'cephfs',
  'iscsi',
  'cinder',
  'fc',
  'flexVolume',
  'azureFile',
  'vsphereVolume',
  'photonPersistentDisk',
  'portworxVolume',
  'azureDisk',
  'scaleIO',
  'local',
  'storageos',
  'csi',
] as const satisfies readonly (keyof PersistentVolumeSpec)[];

/** Where a volume is: the name of its object and the path of its spec. Inline volumes of attachments have no object. */
interface SpecPlace {
  readonly name: string;
  readonly path: string;
  readonly isInline: boolean;
}

function validatePersistentSource(errors: Errors, { name, path }: SpecPlace, spec: PersistentVolumeSpec): void {
  const [kind, ...others] = sourceOrder.filter((source) => spec[source] !== undefined);
  if (kind === undefined) errors.push(required(path, 'must specify a volume type'));
  else {
    if (spec.csi !== undefined && kind === 'csi') validateCSIPersistentSource(errors, `${path}.csi`, spec.csi);
    else validateVolumeSource(errors, { kind, source: spec[kind] as object }, { name, isPersistent: true, path });
    if (kind === 'local' && spec.nodeAffinity?.required === undefined)
      errors.push(required(`${path}.nodeAffinity`, 'Local volume requires node affinity'));
  }
  for (const other of others)
    if (other !== 'flexVolume')
      errors.push(fieldForbidden(`${path}.${other === 'cephfs' ? 'cephFS' : other}`, 'may not specify more than 1 volume type'));
}

function validateCSIPersistentSource(errors: Errors, path: string, source: CSIPersistentVolumeSource): void {
  validateCSIDriverName(errors, `${path}.driver`, source.driver ?? '');
  validateNonEmpty(errors, `${path}.volumeHandle`, source.volumeHandle);
  for (const key of ['controllerPublishSecretRef', 'controllerExpandSecretRef', 'nodePublishSecretRef', 'nodeExpandSecretRef'] as const)
    validateSecretReference(errors, `${path}.${key}`, source[key]);
}

const sourcesOf = (spec: PersistentVolumeSpec = {}): Readonly<Record<string, unknown>> =>
  Object.fromEntries(sourceOrder.flatMap((name) => (spec[name] === undefined ? [] : [[name, spec[name]]])));

const inlineContext = 'in the context of inline volumes';

function validateInlineFields(errors: Errors, path: string, spec: PersistentVolumeSpec): void {
  if (!['', 'Retain'].includes(spec.persistentVolumeReclaimPolicy ?? ''))
    errors.push(fieldForbidden(`${path}.persistentVolumeReclaimPolicy`, `may only be Retain ${inlineContext}`));
  if (spec.nodeAffinity !== undefined) errors.push(fieldForbidden(`${path}.nodeAffinity`, `may not be specified ${inlineContext}`));
}

function validateInlineClass(errors: Errors, path: string, { storageClassName, volumeMode }: PersistentVolumeSpec): void {
  if (storageClassName) errors.push(fieldForbidden(`${path}.storageClassName`, `may not be specified ${inlineContext}`));
  if (volumeMode !== undefined && volumeMode !== 'Filesystem')
    errors.push(fieldForbidden(`${path}.volumeMode`, `may not specify volumeMode other than Filesystem ${inlineContext}`));
}

function validateObjectFields(errors: Errors, path: string, spec: PersistentVolumeSpec): void {
  const capacity = Object.entries(spec.capacity ?? {});
  if (capacity.length === 0) errors.push(required(`${path}.capacity`));
  if (capacity.length !== 1 || spec.capacity?.['storage'] === undefined)
    errors.push({
      type: 'FieldValueNotSupported',
      field: `${path}.capacity`,
      message: `Unsupported value: ${JSON.stringify(spec.capacity ?? {})}: supported values: "storage"`,
    });
  for (const [name, quantity] of capacity)
    if (parseQuantity(quantity).sign <= 0)
      errors.push(invalid(`${path}.capacity[${name}]`, parseQuantity(quantity).toString(), isNotPositive));
  validateOptionalEnum(errors, `${path}.persistentVolumeReclaimPolicy`, spec.persistentVolumeReclaimPolicy, [
    'Delete',
    'Recycle',
    'Retain',
  ]);
  if (spec.nodeAffinity === undefined) return;
  if (spec.nodeAffinity.required === undefined)
    errors.push(required(`${path}.nodeAffinity.required`, 'must specify required node constraints'));
  else validateNodeSelector(errors, `${path}.nodeAffinity.required`, spec.nodeAffinity.required);
}

function validatePersistentVolumeSpec(errors: Errors, place: SpecPlace, spec: PersistentVolumeSpec): void {
  const { path, isInline } = place;
  if ((spec.accessModes ?? []).length === 0) errors.push(required(`${path}.accessModes`));
  validateAccessModeSet(errors, `${path}.accessModes`, spec.accessModes ?? []);
  if (isInline) validateInlineFields(errors, path, spec);
  else validateObjectFields(errors, path, spec);
  validatePersistentSource(errors, place, spec);
  if (spec.persistentVolumeReclaimPolicy === 'Recycle' && /^\/+\.?$/.test(spec.hostPath?.path ?? ''))
    errors.push(fieldForbidden(`${path}.persistentVolumeReclaimPolicy`, "may not be 'recycle' for a hostPath mount of '/'"));
  if (isInline) validateInlineClass(errors, path, spec);
  else {
    if (spec.storageClassName) validateDNSSubdomain(errors, `${path}.storageClassName`, spec.storageClassName);
    validateOptionalEnum(errors, `${path}.volumeMode`, spec.volumeMode, ['Block', 'Filesystem']);
  }
  if (spec.volumeAttributesClassName === undefined) return;
  if (spec.volumeAttributesClassName === '') errors.push(required(`${path}.volumeAttributesClassName`, 'an empty string is disallowed'));
  else validateDNSSubdomain(errors, `${path}.volumeAttributesClassName`, spec.volumeAttributesClassName);
  if (spec.csi === undefined) errors.push(required(`${path}.csi`, 'has to be specified when using volumeAttributesClassName'));
}

/** Validates the volume of an attachment that has no object. */
export function validateInlineVolume(errors: Errors, path: string, spec: PersistentVolumeSpec): void {
  if (spec.claimRef !== undefined) errors.push(fieldForbidden(`${path}.claimRef`, `may not be specified ${inlineContext}`));
  if (Object.keys(spec.capacity ?? {}).length > 0) errors.push(fieldForbidden(`${path}.capacity`, `may not be specified ${inlineContext}`));
  if (spec.csi === undefined) errors.push(required(`${path}.csi`, `has to be specified ${inlineContext}`));
  validatePersistentVolumeSpec(errors, { name: '', path, isInline: true }, spec);
}

export function validatePersistentVolume(errors: Errors, { metadata, spec = {} }: PersistentVolume, old?: PersistentVolume): void {
  validatePersistentVolumeSpec(errors, { name: metadata?.name ?? '', path: 'spec', isInline: false }, spec);
  if (old !== undefined) validatePersistentVolumeUpdate(errors, spec, old.spec ?? {});
}

/** The labels of nodes that took the place of beta labels, which an update may change in the affinity of a volume. */
const stableLabels: Readonly<Record<string, string>> = {
  'failure-domain.beta.kubernetes.io/zone': 'topology.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region': 'topology.kubernetes.io/region',
  'beta.kubernetes.io/os': 'kubernetes.io/os',
  'beta.kubernetes.io/arch': 'kubernetes.io/arch',
  'beta.kubernetes.io/instance-type': 'node.kubernetes.io/instance-type',
};

/** Returns the affinity with the beta labels of the old one where it has their stable names. */
function withOldKeys(affinity: VolumeNodeAffinity | undefined, old: VolumeNodeAffinity): VolumeNodeAffinity | undefined {
  if (affinity?.required === undefined) return affinity;
  const nodeSelectorTerms = (affinity.required.nodeSelectorTerms ?? []).map((term, i) => {
    const oldKeys = old.required?.nodeSelectorTerms?.[i]?.matchExpressions?.map(({ key = '' }) => key) ?? [];
    const { matchExpressions } = term;
    if (matchExpressions === undefined || matchExpressions.length !== oldKeys.length) return term;
    const kept = matchExpressions.map((entry, j) => {
      const key = oldKeys[j] ?? '';
      return stableLabels[key] !== undefined && stableLabels[key] === entry.key ? { ...entry, key } : entry;
    });
    return { ...term, matchExpressions: kept };
  });
  return { ...affinity, required: { ...affinity.required, nodeSelectorTerms } };
}

function validatePersistentVolumeUpdate(errors: Errors, spec: PersistentVolumeSpec, old: PersistentVolumeSpec): void {
  const { controllerExpandSecretRef, ...csi } = spec.csi ?? {};
  // the secret for expansion can be added later
  const isAdded = controllerExpandSecretRef !== undefined && old.csi !== undefined && old.csi.controllerExpandSecretRef === undefined;
  const sources = { ...sourcesOf(spec), ...(isAdded && { csi }) };
  if (!jsonEqual(sources, sourcesOf(old)))
    errors.push(
      fieldForbidden(
        'spec.persistentvolumesource',
        `spec.persistentvolumesource is immutable after creation\n${volumeSourceDiff(sourcesOf(old), sources)}`,
      ),
    );
  validateImmutable(errors, 'volumeMode', spec.volumeMode, old.volumeMode);
  if (old.nodeAffinity !== undefined)
    validateImmutable(errors, 'nodeAffinity', withOldKeys(spec.nodeAffinity, old.nodeAffinity), old.nodeAffinity);
  if (old.volumeAttributesClassName !== undefined && spec.volumeAttributesClassName === undefined)
    errors.push(fieldForbidden('spec.volumeAttributesClassName', 'update from non-nil value to nil is forbidden'));
}
