import { duplicate, fieldForbidden, invalid, required, tooLong } from '../../../field/field-error.ts';
import type { CSIVolumeSource, Volume } from '../../../generated/types/core-v1.ts';
import { isDns1123Subdomain } from '../../../values/names.ts';
import type { ObjectMeta } from '../../../object.ts';
import { compareQuantity } from '../../../values/quantity.ts';
import {
  validateDescendingPath,
  validateDNSLabel,
  validateDNSSubdomain,
  validateOptionalEnum,
  addInvalid,
  validateFileMode,
  validateNoBacksteps,
  validateEnum,
  validateNonEmpty,
  type Errors,
} from '../checks.ts';
import { validateClaimSpec } from './claim-spec.ts';
import { validateAnnotations, validateLabels } from '../../meta.ts';
import { validateDownwardAPIFile, validateKeysToPaths, validateProjected } from './volume-projections.ts';

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

const hostPathTypes = ['', 'BlockDevice', 'CharDevice', 'Directory', 'DirectoryOrCreate', 'File', 'FileOrCreate', 'Socket'];
export function validateHostPath(errors: Errors, path: string, source: { readonly path: string; readonly type?: string }): void {
  if (!source.path) {
    errors.push(required(`${path}.path`));
    return;
  }
  validateNoBacksteps(errors, `${path}.path`, source.path);
  validateOptionalEnum(errors, `${path}.type`, source.type, hostPathTypes);
}
export function validateNFS(errors: Errors, path: string, source: { readonly server: string; readonly path: string }): void {
  validateNonEmpty(errors, `${path}.server`, source.server);
  validateNonEmpty(errors, `${path}.path`, source.path);
  if (!(source.path ?? '').startsWith('/')) errors.push(invalid(`${path}.path`, source.path ?? '', 'must be an absolute path'));
}

/** Required fields of sources without further rules: source -> fields. */
const requiredFields: Readonly<Record<string, readonly string[]>> = {
  gitRepo: ['repository'],
  gcePersistentDisk: ['pdName'],
  awsElasticBlockStore: ['volumeID'],
  iscsi: ['targetPortal', 'iqn'],
  glusterfs: ['endpoints', 'path'],
  persistentVolumeClaim: ['claimName'],
  rbd: ['monitors', 'image'],
  cinder: ['volumeID'],
  cephfs: ['monitors'],
  flexVolume: ['driver'],
  azureFile: ['secretName', 'shareName'],
  azureDisk: ['diskName', 'diskURI'],
  vsphereVolume: ['volumePath'],
  photonPersistentDisk: ['pdID'],
  portworxVolume: ['volumeID'],
  quobyte: ['registry', 'volume'],
  scaleIO: ['gateway', 'system', 'volumeName'],
  storageos: ['volumeName'],
};

function validateSource(
  errors: Errors,
  path: string,
  { volume, meta, isPod }: { readonly volume: Volume; readonly meta: ObjectMeta | undefined; readonly isPod: boolean },
): void {
  const kinds = Object.keys(volume).filter((key) => key !== 'name');
  if (kinds.length === 0) errors.push(required(path, 'must specify a volume type'));
  for (const kind of kinds.slice(1)) errors.push(fieldForbidden(`${path}.${kind}`, 'may not specify more than 1 volume type'));
  const [kind = ''] = kinds;
  const at = `${path}.${kind}`;
  const fields = (volume as unknown as Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>)[kind];
  for (const field of requiredFields[kind] ?? []) {
    const value = fields?.[field];
    if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) errors.push(required(`${at}.${field}`));
  }
  switch (kind) {
    case 'emptyDir': {
      if (volume.emptyDir?.sizeLimit !== undefined && compareQuantity(volume.emptyDir.sizeLimit, '0') < 0)
        errors.push(fieldForbidden(`${at}.sizeLimit`, 'SizeLimit field must be a valid resource quantity'));
      break;
    }
    case 'hostPath':
      if (volume.hostPath) validateHostPath(errors, at, volume.hostPath);
      break;
    case 'gitRepo':
      validateDescendingPath(errors, `${at}.directory`, volume.gitRepo?.directory ?? '');
      break;
    case 'nfs':
      if (volume.nfs) validateNFS(errors, at, volume.nfs);
      break;
    case 'secret': {
      validateNonEmpty(errors, `${at}.secretName`, volume.secret?.secretName);
      validateFileMode(errors, `${at}.defaultMode`, volume.secret?.defaultMode);
      validateKeysToPaths(errors, at, volume.secret?.items);
      break;
    }
    case 'configMap': {
      validateNonEmpty(errors, `${at}.name`, volume.configMap?.name);
      validateFileMode(errors, `${at}.defaultMode`, volume.configMap?.defaultMode);
      validateKeysToPaths(errors, at, volume.configMap?.items);
      break;
    }
    case 'downwardAPI': {
      validateFileMode(errors, `${at}.defaultMode`, volume.downwardAPI?.defaultMode);
      for (const file of volume.downwardAPI?.items ?? []) validateDownwardAPIFile(errors, at, file);
      break;
    }
    case 'projected':
      if (volume.projected) validateProjected(errors, at, volume.projected);
      break;
    case 'csi':
      if (volume.csi) validateCSISource(errors, at, volume.csi);
      break;
    case 'image': {
      if (isPod) validateNonEmpty(errors, `${at}.reference`, volume.image?.reference);
      validateEnum(errors, `${at}.pullPolicy`, volume.image?.pullPolicy, ['Always', 'IfNotPresent', 'Never']);
      break;
    }
    case 'ephemeral':
      validateEphemeral(errors, path, volume, meta);
      break;
    default:
  }
}

function validateEphemeral(errors: Errors, path: string, volume: Volume, meta: ObjectMeta | undefined): void {
  const at = `${path}.ephemeral.volumeClaimTemplate`;
  const template = volume.ephemeral?.volumeClaimTemplate;
  if (template === undefined) errors.push(required(at));
  else {
    validateAnnotations(errors, `${at}.metadata.annotations`, template.metadata?.annotations);
    validateLabels(errors, `${at}.metadata.labels`, template.metadata?.labels);
    for (const key of Object.keys(template.metadata ?? {}))
      if (key !== 'labels' && key !== 'annotations') errors.push(fieldForbidden(`${at}.metadata.${key}`, 'cannot be set'));
    validateClaimSpec(errors, `${at}.spec`, template.spec ?? {});
  }
  if (!meta?.name || !volume.name) return;
  const claim = `${meta.name}-${volume.name}`;
  for (const message of isDns1123Subdomain(claim))
    errors.push(invalid(`${path}.name`, volume.name, `PVC name ${JSON.stringify(claim)}: ${message}`));
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
    validateSource(errors, at, { volume, meta, isPod });
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
