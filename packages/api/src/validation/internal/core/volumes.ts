import { duplicate, fieldForbidden, invalid, required, tooLong } from '../../../field/field-error.ts';
import type { CSIVolumeSource, Volume } from '../../../generated/types/core-v1.ts';
import { isDns1123Subdomain } from '../../../values/names.ts';
import type { ObjectMeta } from '../../../object.ts';
import { compareQuantity } from '../../../values/quantity.ts';
import {
  validateDNSLabel,
  validateDNSSubdomain,
  addInvalid,
  validateFileMode,
  validateEnum,
  validateNonEmpty,
  type Errors,
} from '../checks.ts';
import { validateClaimSpec } from './claim-spec.ts';
import { validateAnnotations, validateLabels } from '../../meta.ts';
import { validateDownwardAPIFile, validateKeysToPaths, validateProjected } from './volume-projections.ts';
import { validateVolumeSource } from './volume-sources.ts';

export function validateCSIDriverName(errors: Errors, path: string, name: string): void {
  if (name === '') errors.push(required(path));
  if (name.length > 63) errors.push(tooLong(path, 63));
  addInvalid(errors, path, name, isDns1123Subdomain(name.toLowerCase()));
}
function validateCSISource(errors: Errors, path: string, source: CSIVolumeSource): void {
  validateCSIDriverName(errors, `${path}.driver`, source.driver ?? '');
  const secret = source.nodePublishSecretRef;
  if (secret === undefined) return;
  if (!secret.name) errors.push(required(`${path}.nodePublishSecretRef.name`));
  else validateDNSSubdomain(errors, `${path}.name`, secret.name);
}

interface SourceContext {
  /** Path of the volume source: `spec.volumes[0].nfs`. */
  readonly at: string;
  readonly volume: Volume;
  /** Path of the volume. */
  readonly path: string;
  readonly meta: ObjectMeta | undefined;
  readonly isPod: boolean;
}
type SourceValidator<Kind extends keyof Volume> = (errors: Errors, source: NonNullable<Volume[Kind]>, context: SourceContext) => void;

const sourceValidators: { readonly [Kind in keyof Volume]?: SourceValidator<Kind> } = {
  emptyDir: (errors, { sizeLimit }, { at }) => {
    if (sizeLimit !== undefined && compareQuantity(sizeLimit, '0') < 0)
      errors.push(fieldForbidden(`${at}.sizeLimit`, 'SizeLimit field must be a valid resource quantity'));
  },
  secret: (errors, { secretName, defaultMode, items }, { at }) => {
    validateNonEmpty(errors, `${at}.secretName`, secretName);
    validateFileMode(errors, `${at}.defaultMode`, defaultMode);
    validateKeysToPaths(errors, at, items);
  },
  configMap: (errors, { name, defaultMode, items }, { at }) => {
    validateNonEmpty(errors, `${at}.name`, name);
    validateFileMode(errors, `${at}.defaultMode`, defaultMode);
    validateKeysToPaths(errors, at, items);
  },
  downwardAPI: (errors, { defaultMode, items = [] }, { at }) => {
    validateFileMode(errors, `${at}.defaultMode`, defaultMode);
    for (const file of items) validateDownwardAPIFile(errors, at, file);
  },
  projected: (errors, source, { at }) => validateProjected(errors, at, source),
  csi: (errors, source, { at }) => validateCSISource(errors, at, source),
  image: (errors, { reference, pullPolicy }, { at, isPod }) => {
    if (isPod) validateNonEmpty(errors, `${at}.reference`, reference);
    validateEnum(errors, `${at}.pullPolicy`, pullPolicy, ['Always', 'IfNotPresent', 'Never']);
  },
  ephemeral: (errors, source, { path, volume, meta }) => {
    validateClaimTemplate(errors, `${path}.ephemeral.volumeClaimTemplate`, source.volumeClaimTemplate);
    if (meta?.name && volume.name) validateEphemeralClaimName(errors, path, volume.name, meta.name);
  },
};

/** The sources in the order in which upstream validates them. Only the first one that is set is validated. */
const sourceOrder = [
  'emptyDir',
  'hostPath',
  'gitRepo',
  'gcePersistentDisk',
  'awsElasticBlockStore',
  'secret',
  'nfs',
  'iscsi',
  'glusterfs',
  'flocker',
  'persistentVolumeClaim',
  'rbd',
  'cinder',
  'cephfs',
  'quobyte',
  'downwardAPI',
  'fc',
  'flexVolume',
  'configMap',
  'azureFile',
  'vsphereVolume',
  'photonPersistentDisk',
  'portworxVolume',
  'azureDisk',
  'storageos',
  'projected',
  'scaleIO',
  'csi',
  'ephemeral',
  'image',
] as const satisfies readonly (keyof Volume)[];
/** The names of sources in upstream's errors that differ from the field. */
const reportedNames: Readonly<Record<string, string>> = { cephfs: 'cephFS', downwardAPI: 'downwarAPI' };

const sourcePositions: ReadonlyMap<string, number> = new Map(sourceOrder.map((name, position) => [name, position]));
const positionOf = (name: string) => sourcePositions.get(name) ?? -1;

/** Returns the sources that are set, in the order of `sourceOrder`. Looks at the fields of the volume: there are few of them, and many sources. */
function sourcesOf(volume: Volume): readonly (typeof sourceOrder)[number][] {
  const names: string[] = [];
  for (const name in volume) if (positionOf(name) >= 0 && volume[name as keyof Volume] !== undefined) names.push(name);
  if (names.length > 1) names.sort((a, b) => positionOf(a) - positionOf(b));
  return names as readonly (typeof sourceOrder)[number][];
}

function validateSource(errors: Errors, context: Omit<SourceContext, 'at'>): void {
  const { path, volume } = context;
  const [kind, ...others] = sourcesOf(volume);
  if (kind === undefined) {
    errors.push(required(path, 'must specify a volume type'));
    return;
  }
  const at = `${path}.${kind}`;
  const source = volume[kind] as object;
  if (!validateVolumeSource(errors, { kind, source }, { name: volume.name, isPersistent: false, path })) {
    const validate = sourceValidators[kind] as ((errors: Errors, source: object, context: SourceContext) => void) | undefined;
    validate?.(errors, source, { ...context, at });
  }
  for (const other of others)
    errors.push(fieldForbidden(`${path}.${reportedNames[other] ?? other}`, 'may not specify more than 1 volume type'));
}

function validateClaimTemplate(errors: Errors, at: string, template: NonNullable<Volume['ephemeral']>['volumeClaimTemplate']): void {
  if (template === undefined) {
    errors.push(required(at));
    return;
  }
  validateAnnotations(errors, `${at}.metadata.annotations`, template.metadata?.annotations);
  validateLabels(errors, `${at}.metadata.labels`, template.metadata?.labels);
  for (const key of Object.keys(template.metadata ?? {}))
    if (key !== 'labels' && key !== 'annotations') errors.push(fieldForbidden(`${at}.metadata.${key}`, 'cannot be set'));
  validateClaimSpec(errors, `${at}.spec`, { spec: template.spec ?? {} });
}

function validateEphemeralClaimName(errors: Errors, path: string, volumeName: string, podName: string): void {
  const claim = `${podName}-${volumeName}`;
  for (const message of isDns1123Subdomain(claim))
    errors.push(invalid(`${path}.name`, volumeName, `PVC name ${JSON.stringify(claim)}: ${message}`));
}

/** Validates volumes and returns the valid ones by name. `meta` is set for pods only, whose name is known. */
export function validateVolumes(
  errors: Errors,
  path: string,
  { list, meta, isPod }: { readonly list: readonly Volume[]; readonly meta: ObjectMeta | undefined; readonly isPod: boolean },
): ReadonlyMap<string, Volume> {
  const valid = new Map<string, Volume>();
  const created = new Set(
    meta?.name ? list.filter((volume) => volume.ephemeral !== undefined).map((volume) => `${meta.name}-${volume.name}`) : [],
  );
  for (const [i, volume] of list.entries()) {
    const at = `${path}[${i}]`;
    const before = errors.length;
    validateSource(errors, { volume, path: at, meta, isPod });
    if (!volume.name) errors.push(required(`${at}.name`));
    else validateDNSLabel(errors, `${at}.name`, volume.name);
    if (valid.has(volume.name)) errors.push(duplicate(`${at}.name`, volume.name));
    if (errors.length === before) valid.set(volume.name, volume);
    const claim = volume.persistentVolumeClaim?.claimName;
    if (claim !== undefined && created.has(claim))
      errors.push(
        invalid(`${at}.persistentVolumeClaim.claimName`, claim, 'must not reference a PVC that gets created for an ephemeral volume'),
      );
  }
  return valid;
}
