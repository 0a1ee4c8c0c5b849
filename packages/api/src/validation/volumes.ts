import { duplicate, fieldForbidden, invalid, required, tooLong } from '../field-error.ts';
import type { CSIVolumeSource, Volume } from '../generated/types/core-v1.ts';
import { isDns1123Subdomain } from '../names.ts';
import type { ObjectMeta } from '../object.ts';
import { compareQuantity } from '../quantity.ts';
import {
  descendingPath,
  dnsLabel,
  dnsSubdomain,
  ifOneOf,
  invalidEach,
  mode,
  noBacksteps,
  oneOf,
  requireText,
  type Errors,
} from './checks.ts';
import { claimSpec } from './claims.ts';
import { annotations, labels } from './meta.ts';
import { downwardFile, keysToPaths, projected } from './volume-files.ts';

export function csiDriverName(errors: Errors, path: string, name: string): void {
  if (name === '') errors.push(required(path));
  if (name.length > 63) errors.push(tooLong(path, 63));
  invalidEach(errors, path, name, isDns1123Subdomain(name.toLowerCase()));
}
function csi(errors: Errors, path: string, source: CSIVolumeSource): void {
  csiDriverName(errors, `${path}.driver`, source.driver ?? '');
  const secret = source.nodePublishSecretRef;
  if (secret === undefined) return;
  if (!secret.name) errors.push(required(`${path}.nodePublishSecretRef.name`));
  else dnsSubdomain(errors, `${path}.name`, secret.name);
}

const hostPathTypes = ['', 'BlockDevice', 'CharDevice', 'Directory', 'DirectoryOrCreate', 'File', 'FileOrCreate', 'Socket'];
export function hostPath(errors: Errors, path: string, source: { readonly path: string; readonly type?: string }): void {
  if (!source.path) {
    errors.push(required(`${path}.path`));
    return;
  }
  noBacksteps(errors, `${path}.path`, source.path);
  ifOneOf(errors, `${path}.type`, source.type, hostPathTypes);
}
export function nfs(errors: Errors, path: string, source: { readonly server: string; readonly path: string }): void {
  requireText(errors, `${path}.server`, source.server);
  requireText(errors, `${path}.path`, source.path);
  if (!(source.path ?? '').startsWith('/')) errors.push(invalid(`${path}.path`, source.path ?? '', 'must be an absolute path'));
}

/** Sources of which only a few fields are checked: source -> required fields. */
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

function source(errors: Errors, path: string, volume: Volume, meta: ObjectMeta | undefined, isPod: boolean): void {
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
      if (volume.hostPath) hostPath(errors, at, volume.hostPath);
      break;
    case 'gitRepo':
      descendingPath(errors, `${at}.directory`, volume.gitRepo?.directory ?? '');
      break;
    case 'nfs':
      if (volume.nfs) nfs(errors, at, volume.nfs);
      break;
    case 'secret': {
      requireText(errors, `${at}.secretName`, volume.secret?.secretName);
      mode(errors, `${at}.defaultMode`, volume.secret?.defaultMode);
      keysToPaths(errors, at, volume.secret?.items);
      break;
    }
    case 'configMap': {
      requireText(errors, `${at}.name`, volume.configMap?.name);
      mode(errors, `${at}.defaultMode`, volume.configMap?.defaultMode);
      keysToPaths(errors, at, volume.configMap?.items);
      break;
    }
    case 'downwardAPI': {
      mode(errors, `${at}.defaultMode`, volume.downwardAPI?.defaultMode);
      for (const file of volume.downwardAPI?.items ?? []) downwardFile(errors, at, file);
      break;
    }
    case 'projected':
      if (volume.projected) projected(errors, at, volume.projected);
      break;
    case 'csi':
      if (volume.csi) csi(errors, at, volume.csi);
      break;
    case 'image': {
      if (isPod) requireText(errors, `${at}.reference`, volume.image?.reference);
      oneOf(errors, `${at}.pullPolicy`, volume.image?.pullPolicy, ['Always', 'IfNotPresent', 'Never']);
      break;
    }
    case 'ephemeral':
      ephemeral(errors, path, volume, meta);
      break;
    default:
  }
}

function ephemeral(errors: Errors, path: string, volume: Volume, meta: ObjectMeta | undefined): void {
  const at = `${path}.ephemeral.volumeClaimTemplate`;
  const template = volume.ephemeral?.volumeClaimTemplate;
  if (template === undefined) errors.push(required(at));
  else {
    annotations(errors, `${at}.metadata.annotations`, template.metadata?.annotations);
    labels(errors, `${at}.metadata.labels`, template.metadata?.labels);
    for (const key of Object.keys(template.metadata ?? {}))
      if (key !== 'labels' && key !== 'annotations') errors.push(fieldForbidden(`${at}.metadata.${key}`, 'cannot be set'));
    claimSpec(errors, `${at}.spec`, template.spec ?? {});
  }
  if (!meta?.name || !volume.name) return;
  const claim = `${meta.name}-${volume.name}`;
  for (const message of isDns1123Subdomain(claim))
    errors.push(invalid(`${path}.name`, volume.name, `PVC name ${JSON.stringify(claim)}: ${message}`));
}

/** Checks volumes and gives those without fault by name. `meta` only for pods, whose name is known. */
export function volumes(
  errors: Errors,
  path: string,
  list: readonly Volume[],
  meta: ObjectMeta | undefined,
  isPod: boolean,
): ReadonlyMap<string, Volume> {
  const valid = new Map<string, Volume>();
  const created = new Set(
    meta?.name ? list.filter((volume) => volume.ephemeral !== undefined).map((volume) => `${meta.name}-${volume.name}`) : [],
  );
  for (const [i, volume] of list.entries()) {
    const at = `${path}[${i}]`;
    const before = errors.length;
    source(errors, at, volume, meta, isPod);
    if (!volume.name) errors.push(required(`${at}.name`));
    else dnsLabel(errors, `${at}.name`, volume.name);
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
