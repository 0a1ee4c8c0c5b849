import { duplicate, fieldForbidden, invalid, required, tooLong } from '../field-error.ts';
import type {
  CSIVolumeSource, DownwardAPIVolumeFile, KeyToPath, ObjectFieldSelector, PersistentVolumeClaimSpec, ProjectedVolumeSource, ResourceFieldSelector, Volume,
} from '../generated/types/core-v1.ts';
import { notSupported } from '../field-error.ts';
import { isDns1123Subdomain } from '../names.ts';
import type { ObjectMeta } from '../object.ts';
import { compareQuantity, parseQuantity } from '../quantity.ts';
import { descendingPath, dnsLabel, dnsSubdomain, ifOneOf, invalidEach, isNotPositive, mode, noBacksteps, nonReservedPath, oneOf, qualifiedName, requireText, type Errors } from './checks.ts';
import { annotations, labels, labelSelector } from './meta.ts';
import { resourceQuantity } from './resources.ts';

const envFields = ['metadata.name', 'metadata.namespace', 'metadata.uid', 'spec.nodeName', 'spec.serviceAccountName', 'status.hostIP', 'status.hostIPs', 'status.podIP', 'status.podIPs'];
const volumeFields = ['metadata.name', 'metadata.namespace', 'metadata.labels', 'metadata.annotations', 'metadata.uid'];
const knownFields = new Set([...envFields, ...volumeFields]);
const containerFields = ['limits.cpu', 'limits.memory', 'limits.ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.ephemeral-storage'];
const byteDivisors = ['1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei'];

/** `spec.nodeName`, `metadata.labels['app']`: a field of the pod. */
export function fieldRef(errors: Errors, path: string, ref: ObjectFieldSelector, where: 'env' | 'volume'): void {
  if (!ref.apiVersion) { errors.push(required(`${path}.apiVersion`)); return; }
  const { fieldPath } = ref;
  if (!fieldPath) { errors.push(required(`${path}.fieldPath`)); return; }
  const [, field = '', key] = /^([^[]*)\['(.*)'\]$/.exec(fieldPath) ?? [];
  if (key !== undefined) {
    if (field === 'metadata.annotations') qualifiedName(errors, path, key.toLowerCase());
    else if (field === 'metadata.labels') qualifiedName(errors, path, key);
    else if (knownFields.has(field)) errors.push(invalid(path, field, 'does not support subscript'));
    else errors.push(invalid(`${path}.fieldPath`, fieldPath, `error converting fieldPath: field label not supported: ${fieldPath}`));
    return;
  }
  const supported = where === 'env' ? envFields : volumeFields;
  if (!knownFields.has(fieldPath)) errors.push(invalid(`${path}.fieldPath`, fieldPath, `error converting fieldPath: field label not supported: ${fieldPath}`));
  else if (!supported.includes(fieldPath)) errors.push(notSupported(`${path}.fieldPath`, fieldPath, supported));
}

export function resourceFieldRef(errors: Errors, path: string, ref: ResourceFieldSelector, where: 'env' | 'volume'): void {
  const { resource, divisor = '0' } = ref;
  const hugePages = /^(limits|requests)\.hugepages-/.test(resource ?? '');
  if (where === 'volume' && !ref.containerName) errors.push(required(`${path}.containerName`));
  else if (!resource) errors.push(required(`${path}.resource`));
  else if (!hugePages && !containerFields.includes(resource)) errors.push(notSupported(`${path}.resource`, resource, containerFields));
  const amount = parseQuantity(divisor);
  if (amount.sign === 0 || !resource) return;
  const kind = resource.slice(resource.indexOf('.') + 1);
  const [allowed, what] = kind === 'cpu' ? [['1m', '1'], 'cpu'] : kind === 'memory' ? [byteDivisors, 'memory'] : kind === 'ephemeral-storage' ? [byteDivisors, 'local ephemeral storage']
    : hugePages ? [byteDivisors, 'hugepages'] : [[], ''];
  if (what !== '' && !allowed.includes(amount.toString())) {
    const list = kind === 'cpu' ? '1m and 1' : byteDivisors.join(', ');
    errors.push(invalid(`${path}.divisor`, resource, `only divisor's values ${list} are supported with the ${what} resource`));
  }
}

function keyToPath(errors: Errors, path: string, item: KeyToPath): void {
  requireText(errors, `${path}.key`, item.key);
  requireText(errors, `${path}.path`, item.path);
  nonReservedPath(errors, `${path}.path`, item.path ?? '');
  mode(errors, `${path}.mode`, item.mode);
}
const keysToPaths = (errors: Errors, path: string, items: readonly KeyToPath[] = []) => {
  for (const [i, item] of items.entries()) keyToPath(errors, `${path}.items[${i}]`, item);
};

function downwardFile(errors: Errors, path: string, file: DownwardAPIVolumeFile): void {
  requireText(errors, `${path}.path`, file.path);
  nonReservedPath(errors, `${path}.path`, file.path ?? '');
  if (file.fieldRef !== undefined) {
    fieldRef(errors, `${path}.fieldRef`, file.fieldRef, 'volume');
    if (file.resourceFieldRef !== undefined) errors.push(invalid(path, 'resource', 'fieldRef and resourceFieldRef can not be specified simultaneously'));
  } else if (file.resourceFieldRef !== undefined) resourceFieldRef(errors, `${path}.resourceFieldRef`, file.resourceFieldRef, 'volume');
  else errors.push(required(path, 'one of fieldRef and resourceFieldRef is required'));
  mode(errors, `${path}.mode`, file.mode);
}

function projected(errors: Errors, path: string, volume: ProjectedVolumeSource): void {
  mode(errors, `${path}.defaultMode`, volume.defaultMode);
  const paths = new Set<string>();
  const claimPath = (file: string | undefined, shown: string) => {
    if (!file) return;
    if (paths.has(file)) errors.push(invalid(path, shown, 'conflicting duplicate paths'));
    paths.add(file);
  };
  for (const [i, source] of (volume.sources ?? []).entries()) {
    const at = `${path}.sources[${i}]`;
    for (const kind of ['secret', 'configMap'] as const) {
      const object = source[kind];
      if (object === undefined) continue;
      requireText(errors, `${at}.${kind}.name`, object.name);
      keysToPaths(errors, `${at}.${kind}`, object.items);
      for (const item of object.items ?? []) claimPath(item.path, object.name ?? '');
    }
    for (const file of source.downwardAPI?.items ?? []) {
      downwardFile(errors, `${at}.downwardAPI`, file);
      claimPath(file.path, file.path ?? '');
    }
    const token = source.serviceAccountToken;
    if (token !== undefined) {
      const seconds = token.expirationSeconds ?? 3600;
      if (seconds < 600) errors.push(invalid(`${at}.serviceAccountToken.expirationSeconds`, seconds, 'may not specify a duration less than 10 minutes'));
      if (seconds > 2 ** 32) errors.push(invalid(`${at}.serviceAccountToken.expirationSeconds`, seconds, 'may not specify a duration larger than 2^32 seconds'));
      if (!token.path) errors.push(required(`${path}.path`));
      else nonReservedPath(errors, `${path}.path`, token.path);
    }
    const bundle = source.clusterTrustBundle;
    if (bundle !== undefined) {
      if (bundle.name !== undefined && bundle.signerName !== undefined) errors.push(invalid(`${at}.clusterTrustBundle`, bundle, 'only one of name and signerName may be used'));
      else if (bundle.name === undefined && bundle.signerName === undefined) errors.push(required(`${at}.clusterTrustBundle`, 'either name or signerName must be specified'));
      if (bundle.name !== undefined && bundle.labelSelector !== undefined) errors.push(invalid(`${at}.clusterTrustBundle.labelSelector`, bundle.labelSelector, 'labelSelector must be unset if name is specified'));
      labelSelector(errors, `${at}.clusterTrustBundle.labelSelector`, bundle.labelSelector);
      requireText(errors, `${at}.clusterTrustBundle.path`, bundle.path);
      nonReservedPath(errors, `${at}.clusterTrustBundle.path`, bundle.path ?? '');
      claimPath(bundle.path, bundle.path ?? '');
    }
    if (Object.keys(source).length > 1) errors.push(fieldForbidden(at, 'may not specify more than 1 volume type per source'));
  }
}

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
    if (!source.apiGroup && source.kind !== 'PersistentVolumeClaim') errors.push(invalid(`${path}.${key}`, source.kind ?? '', "must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
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

const hostPathTypes = ['', 'BlockDevice', 'CharDevice', 'Directory', 'DirectoryOrCreate', 'File', 'FileOrCreate', 'Socket'];
export function hostPath(errors: Errors, path: string, source: { readonly path: string; readonly type?: string }): void {
  if (!source.path) { errors.push(required(`${path}.path`)); return; }
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
  gitRepo: ['repository'], gcePersistentDisk: ['pdName'], awsElasticBlockStore: ['volumeID'], iscsi: ['targetPortal', 'iqn'], glusterfs: ['endpoints', 'path'],
  persistentVolumeClaim: ['claimName'], rbd: ['monitors', 'image'], cinder: ['volumeID'], cephfs: ['monitors'], flexVolume: ['driver'], azureFile: ['secretName', 'shareName'],
  azureDisk: ['diskName', 'diskURI'], vsphereVolume: ['volumePath'], photonPersistentDisk: ['pdID'], portworxVolume: ['volumeID'], quobyte: ['registry', 'volume'],
  scaleIO: ['gateway', 'system', 'volumeName'], storageos: ['volumeName'],
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
      if (volume.emptyDir?.sizeLimit !== undefined && compareQuantity(volume.emptyDir.sizeLimit, '0') < 0) errors.push(fieldForbidden(`${at}.sizeLimit`, 'SizeLimit field must be a valid resource quantity'));
      break;
    }
    case 'hostPath': if (volume.hostPath) hostPath(errors, at, volume.hostPath); break;
    case 'gitRepo': descendingPath(errors, `${at}.directory`, volume.gitRepo?.directory ?? ''); break;
    case 'nfs': if (volume.nfs) nfs(errors, at, volume.nfs); break;
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
    case 'projected': if (volume.projected) projected(errors, at, volume.projected); break;
    case 'csi': if (volume.csi) csi(errors, at, volume.csi); break;
    case 'image': {
      if (isPod) requireText(errors, `${at}.reference`, volume.image?.reference);
      oneOf(errors, `${at}.pullPolicy`, volume.image?.pullPolicy, ['Always', 'IfNotPresent', 'Never']);
      break;
    }
    case 'ephemeral': ephemeral(errors, path, volume, meta); break;
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
    for (const key of Object.keys(template.metadata ?? {})) if (key !== 'labels' && key !== 'annotations') errors.push(fieldForbidden(`${at}.metadata.${key}`, 'cannot be set'));
    claimSpec(errors, `${at}.spec`, template.spec ?? {});
  }
  if (!meta?.name || !volume.name) return;
  const claim = `${meta.name}-${volume.name}`;
  for (const message of isDns1123Subdomain(claim)) errors.push(invalid(`${path}.name`, volume.name, `PVC name ${JSON.stringify(claim)}: ${message}`));
}

/** Checks volumes and gives those without fault by name. `meta` only for pods, whose name is known. */
export function volumes(errors: Errors, path: string, list: readonly Volume[], meta: ObjectMeta | undefined, isPod: boolean): ReadonlyMap<string, Volume> {
  const valid = new Map<string, Volume>();
  const created = new Set(meta?.name ? list.filter((volume) => volume.ephemeral !== undefined).map((volume) => `${meta.name}-${volume.name}`) : []);
  for (const [i, volume] of list.entries()) {
    const at = `${path}[${i}]`;
    const before = errors.length;
    source(errors, at, volume, meta, isPod);
    if (!volume.name) errors.push(required(`${at}.name`));
    else dnsLabel(errors, `${at}.name`, volume.name);
    if (valid.has(volume.name)) errors.push(duplicate(`${at}.name`, volume.name));
    if (errors.length === before) valid.set(volume.name, volume);
    const claim = volume.persistentVolumeClaim?.claimName;
    if (claim !== undefined && created.has(claim)) errors.push(invalid(`${at}.persistentVolumeClaim.claimName`, claim, 'must not reference a PVC that gets created for an ephemeral volume'));
  }
  return valid;
}
