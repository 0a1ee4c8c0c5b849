import { invalid, notSupported, required } from '../../../field/field-error.ts';
import type { PersistentVolumeSpec, Volume } from '../../../generated/types/core-v1.ts';
import { inclusiveRangeError, isDns1123Label, isDns1123Subdomain } from '../../../values/names.ts';
import {
  addInvalid,
  validateDescendingPath,
  validateDNSLabel,
  validateNoBacksteps,
  validateNonEmpty,
  validateOptionalEnum,
  type Errors,
} from '../checks.ts';

/** The sources that a PersistentVolume has, most of them in the same shape as a pod's volume. */
type Sources = Omit<PersistentVolumeSpec, 'csi'>;
type PodSources = Omit<Volume, 'name' | 'csi'>;
type Source<Kind extends string> =
  | (Kind extends keyof Sources ? NonNullable<Sources[Kind]> : never)
  | (Kind extends keyof PodSources ? NonNullable<PodSources[Kind]> : never);

/** The volume that has the source. */
export interface VolumeOwner {
  readonly name: string;
  /** True for a PersistentVolume, whose references to secrets have a namespace. */
  readonly isPersistent: boolean;
  /** The path of the object with the source: `spec`, `spec.volumes[0]`. */
  readonly path: string;
}
interface SourceContext extends VolumeOwner {
  /** The path of the source. */
  readonly at: string;
}
type SourceValidator<Kind extends string> = (errors: Errors, source: Source<Kind>, context: SourceContext) => void;

const hostPathTypes = ['', 'BlockDevice', 'CharDevice', 'Directory', 'DirectoryOrCreate', 'File', 'FileOrCreate', 'Socket'];

/** Returns a validator of a source that only has required fields. */
const requiring =
  (...keys: readonly string[]) =>
  (errors: Errors, source: object, { at }: Pick<SourceContext, 'at'>): void => {
    for (const key of keys) {
      const value = (source as Readonly<Record<string, unknown>>)[key];
      if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) errors.push(required(`${at}.${key}`));
    }
  };

/** Validates a partition or a logical unit number. */
function validateByte(errors: Errors, at: string, value = 0): void {
  // upstream's text about a partition, in which 0 is the whole disk
  const low = at.endsWith('.partition') ? 1 : 0;
  if (value < 0 || value > 255) errors.push(invalid(at, value, inclusiveRangeError(low, 255)));
}

type Reference = { readonly name?: string; readonly namespace?: string } | undefined;

function validateSecretRef(errors: Errors, { at, isPersistent }: Pick<SourceContext, 'at' | 'isPersistent'>, reference: Reference): void {
  if (reference === undefined) return;
  validateNonEmpty(errors, `${at}.secretRef.name`, reference.name);
  if (isPersistent) validateNonEmpty(errors, `${at}.secretRef.namespace`, reference.namespace);
}

const iscsiNames: readonly (readonly [prefix: string, pattern: RegExp])[] = [
  ['iqn', /iqn\.\d{4}-\d{2}\.[A-Za-z0-9\-.]+:[^,;*&$|\s]+$/],
  ['eui', /^eui.[A-Za-z0-9]{16}$/],
  ['naa', /^naa.[A-Za-z0-9]{32}$/],
];
/** Validates a qualified name of iSCSI. */
function validateIscsiName(errors: Errors, { at, isPersistent }: Pick<SourceContext, 'at' | 'isPersistent'>, name: string): void {
  const format = iscsiNames.find(([prefix]) => name.startsWith(prefix));
  if (format === undefined)
    errors.push(invalid(at, name, isPersistent ? 'must be valid format' : 'must be valid format starting with iqn, eui, or naa'));
  else if (!format[1].test(name)) errors.push(invalid(at, name, 'must be valid format'));
}

const validateIscsi: SourceValidator<'iscsi'> = (errors, source, { at, name, isPersistent, path }) => {
  const { targetPortal = '', iqn = '', lun, initiatorName, secretRef } = source;
  const tooLong = 'Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.';
  const isTooLong = initiatorName !== undefined && `${name}:${targetPortal}`.length > 64;
  if (targetPortal === '') errors.push(required(`${at}.targetPortal`));
  if (isTooLong && isPersistent) errors.push(invalid(`${at}.targetportal`, targetPortal, tooLong));
  if (iqn === '') errors.push(required(`${at}.iqn`));
  else validateIscsiName(errors, { at: `${at}.iqn`, isPersistent }, iqn);
  validateByte(errors, `${at}.lun`, lun);
  if ((source.chapAuthDiscovery === true || source.chapAuthSession === true) && secretRef === undefined)
    errors.push(required(`${at}.secretRef`));
  if (isPersistent) validateSecretRef(errors, { at, isPersistent: false }, secretRef);
  if (initiatorName !== undefined) validateIscsiName(errors, { at: `${at}.initiatorname`, isPersistent }, initiatorName);
  if (isTooLong && !isPersistent) errors.push(invalid(`${path}.name`, name, tooLong));
};

const validateAzureDisk: SourceValidator<'azureDisk'> = (errors, { diskName, diskURI = '', cachingMode, kind }, { at }) => {
  validateNonEmpty(errors, `${at}.diskName`, diskName);
  validateNonEmpty(errors, `${at}.diskURI`, diskURI);
  validateOptionalEnum(errors, `${at}.cachingMode`, cachingMode, ['None', 'ReadOnly', 'ReadWrite']);
  validateOptionalEnum(errors, `${at}.kind`, kind, ['Dedicated', 'Managed', 'Shared']);
  if (kind === 'Managed' && !diskURI.startsWith('/subscriptions/'))
    errors.push(
      notSupported(`${at}.diskURI`, diskURI, [
        '/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}',
      ]),
    );
  if (kind !== undefined && kind !== 'Managed' && !diskURI.startsWith('https://'))
    errors.push(notSupported(`${at}.diskURI`, diskURI, ['https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd']));
};

const registryMessage = 'must be a host:port pair or multiple pairs separated by commas';
const hostAndPort = /^(?:\[[^[\]]*\]|[^:[\]]*):[^:[\]]*$/;
const validateQuobyte: SourceValidator<'quobyte'> = (errors, { registry = '', tenant = '', volume }, { at }) => {
  if (registry === '') errors.push(required(`${at}.registry`, registryMessage));
  else if (tenant.length >= 65) errors.push(required(`${at}.tenant`, 'must be a UUID and may not exceed a length of 64 characters'));
  else
    for (const pair of registry.split(',')) if (!hostAndPort.test(pair)) errors.push(invalid(`${at}.registry`, registry, registryMessage));
  validateNonEmpty(errors, `${at}.volume`, volume);
};

const validateFlexVolume: SourceValidator<'flexVolume'> = (errors, { driver, options = {} }, { at }) => {
  validateNonEmpty(errors, `${at}.driver`, driver);
  for (const key of Object.keys(options)) {
    const domain = `.${(key.split('/')[0] ?? '').toLowerCase()}`;
    if (domain.endsWith('.kubernetes.io') || domain.endsWith('.k8s.io'))
      errors.push(invalid(`${at}.options[${key}]`, key, 'kubernetes.io and k8s.io namespaces are reserved'));
  }
};

const validateFibreChannel: SourceValidator<'fc'> = (errors, { targetWWNs = [], wwids = [], lun }, { at }) => {
  if (targetWWNs.length === 0 && wwids.length === 0)
    errors.push(required(`${at}.targetWWNs`, 'must specify either targetWWNs or wwids, but not both'));
  if (targetWWNs.length > 0 && wwids.length > 0)
    errors.push(invalid(`${at}.targetWWNs`, targetWWNs, 'targetWWNs and wwids can not be specified simultaneously'));
  if (targetWWNs.length === 0) return;
  if (lun === undefined) errors.push(required(`${at}.lun`, 'lun is required if targetWWNs is specified'));
  else validateByte(errors, `${at}.lun`, lun);
};

const validateFlocker: SourceValidator<'flocker'> = (errors, { datasetName = '', datasetUUID = '' }, { at }) => {
  if (datasetName === '' && datasetUUID === '') errors.push(required(at, 'one of datasetName and datasetUUID is required'));
  if (datasetName !== '' && datasetUUID !== '')
    errors.push(invalid(at, 'resource', 'datasetName and datasetUUID can not be specified simultaneously'));
  if (datasetName.includes('/')) errors.push(invalid(`${at}.datasetName`, datasetName, "must not contain '/'"));
};

const validateStorageOS: SourceValidator<'storageos'> = (errors, source, { at, isPersistent }) => {
  const { volumeName = '', volumeNamespace = '', secretRef } = source;
  if (volumeName === '') errors.push(required(`${at}.volumeName`));
  else validateDNSLabel(errors, `${at}.volumeName`, volumeName);
  if (volumeNamespace !== '') validateDNSLabel(errors, `${at}.volumeNamespace`, volumeNamespace);
  validateSecretRef(errors, { at, isPersistent }, secretRef);
};

const validateGlusterfs: SourceValidator<'glusterfs'> = (errors, source, { at }) => {
  requiring('endpoints', 'path')(errors, source, { at });
  const namespace = 'endpointsNamespace' in source ? source.endpointsNamespace : undefined;
  if (namespace === undefined) return;
  if (namespace === '')
    errors.push(invalid(`${at}.endpointsNamespace`, namespace, 'if the endpointnamespace is set, it must be a valid namespace name'));
  else addInvalid(errors, `${at}.endpointsNamespace`, namespace, isDns1123Label(namespace));
};

export const volumeSources = {
  hostPath: (errors, { path, type }, { at }) => {
    if (!path) {
      errors.push(required(`${at}.path`));
      return;
    }
    validateNoBacksteps(errors, `${at}.path`, path);
    validateOptionalEnum(errors, `${at}.type`, type, hostPathTypes);
  },
  gitRepo: (errors, { repository, directory = '' }, { at }) => {
    validateNonEmpty(errors, `${at}.repository`, repository);
    validateDescendingPath(errors, `${at}.directory`, directory);
  },
  gcePersistentDisk: (errors, { pdName, partition }, { at }) => {
    // upstream's path
    const path = at.replace(/gcePersistentDisk$/, 'persistentDisk');
    validateNonEmpty(errors, `${path}.pdName`, pdName);
    validateByte(errors, `${path}.partition`, partition);
  },
  awsElasticBlockStore: (errors, { volumeID, partition }, { at }) => {
    validateNonEmpty(errors, `${at}.volumeID`, volumeID);
    validateByte(errors, `${at}.partition`, partition);
  },
  nfs: (errors, { server, path = '' }, { at }) => {
    validateNonEmpty(errors, `${at}.server`, server);
    validateNonEmpty(errors, `${at}.path`, path);
    if (!path.startsWith('/')) errors.push(invalid(`${at}.path`, path, 'must be an absolute path'));
  },
  iscsi: validateIscsi,
  glusterfs: validateGlusterfs,
  flocker: validateFlocker,
  persistentVolumeClaim: requiring('claimName'),
  rbd: requiring('monitors', 'image'),
  cinder: (errors, { volumeID, secretRef }, { at, isPersistent }) => {
    validateNonEmpty(errors, `${at}.volumeID`, volumeID);
    validateSecretRef(errors, { at, isPersistent }, secretRef);
  },
  cephfs: requiring('monitors'),
  quobyte: validateQuobyte,
  fc: validateFibreChannel,
  flexVolume: validateFlexVolume,
  azureFile: (errors, source, { at }) => {
    requiring('secretName', 'shareName')(errors, source, { at });
    if ('secretNamespace' in source && source.secretNamespace === '') errors.push(required(`${at}.secretNamespace`));
  },
  vsphereVolume: requiring('volumePath'),
  photonPersistentDisk: requiring('pdID'),
  portworxVolume: requiring('volumeID'),
  azureDisk: validateAzureDisk,
  storageos: validateStorageOS,
  scaleIO: requiring('gateway', 'system', 'volumeName'),
  local: (errors, { path }, { at }) => {
    if (path) validateNoBacksteps(errors, `${at}.path`, path);
    else errors.push(required(`${at}.path`));
  },
} satisfies { readonly [Kind in keyof Sources | keyof PodSources]?: SourceValidator<Kind> };

/** Validates a source that pods and PersistentVolumes have in common; returns false if it is not one of them. */
export function validateVolumeSource(
  errors: Errors,
  { kind, source }: { readonly kind: string; readonly source: object },
  owner: VolumeOwner,
): boolean {
  if (!Object.hasOwn(volumeSources, kind)) return false;
  const validate = volumeSources[kind as keyof typeof volumeSources] as (errors: Errors, source: object, context: SourceContext) => void;
  validate(errors, source, { ...owner, at: `${owner.path}.${kind}` });
  return true;
}

/** Validates the reference of a PersistentVolume to a Secret. */
export function validateSecretReference(errors: Errors, at: string, reference: Reference): void {
  if (reference === undefined) return;
  if (!reference.name) errors.push(required(`${at}.name`));
  else addInvalid(errors, `${at}.name`, reference.name, isDns1123Subdomain(reference.name));
  if (!reference.namespace) errors.push(required(`${at}.namespace`));
  else validateDNSLabel(errors, `${at}.namespace`, reference.namespace);
}
