import { fieldForbidden, invalid, notSupported, notSupportedInOrder, required } from '../../../field/field-error.ts';
import type {
  ClusterTrustBundleProjection,
  DownwardAPIVolumeFile,
  KeyToPath,
  ObjectFieldSelector,
  PodCertificateProjection,
  ProjectedVolumeSource,
  ResourceFieldSelector,
} from '../../../generated/types/core-v1.ts';
import { parseQuantity } from '../../../values/quantity.ts';
import { validateFileMode, validateNonReservedPath, validateQualifiedName, validateNonEmpty, type Errors } from '../checks.ts';
import { validateLabelSelector } from '../../meta.ts';
import { validateSignerName } from '../signer-name.ts';

const envFields = [
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'spec.nodeName',
  'spec.serviceAccountName',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
];
const volumeFields = ['metadata.name', 'metadata.namespace', 'metadata.labels', 'metadata.annotations', 'metadata.uid'];
const knownFields = new Set([...envFields, ...volumeFields]);
const containerFields = [
  'limits.cpu',
  'limits.memory',
  'limits.ephemeral-storage',
  'requests.cpu',
  'requests.memory',
  'requests.ephemeral-storage',
];
const byteDivisors = ['1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei'];

/** Validates a reference to a pod field: `spec.nodeName`, `metadata.labels['app']`. */
export function validateFieldRef(errors: Errors, path: string, ref: ObjectFieldSelector, where: 'env' | 'volume'): void {
  if (!ref.apiVersion) {
    errors.push(required(`${path}.apiVersion`));
    return;
  }
  const { fieldPath } = ref;
  if (!fieldPath) {
    errors.push(required(`${path}.fieldPath`));
    return;
  }
  if (ref.apiVersion !== 'v1') {
    errors.push(invalid(`${path}.fieldPath`, fieldPath, `error converting fieldPath: unsupported pod version: ${ref.apiVersion}`));
    return;
  }
  const [, field = '', key] = /^([^[]*)\['(.*)'\]$/.exec(fieldPath) ?? [];
  if (key !== undefined) {
    if (field === 'metadata.annotations') validateQualifiedName(errors, path, key.toLowerCase());
    else if (field === 'metadata.labels') validateQualifiedName(errors, path, key);
    else if (knownFields.has(field)) errors.push(invalid(path, field, 'does not support subscript'));
    else errors.push(invalid(`${path}.fieldPath`, fieldPath, `error converting fieldPath: field label not supported: ${fieldPath}`));
    return;
  }
  const supported = where === 'env' ? envFields : volumeFields;
  if (!knownFields.has(fieldPath))
    errors.push(invalid(`${path}.fieldPath`, fieldPath, `error converting fieldPath: field label not supported: ${fieldPath}`));
  else if (!supported.includes(fieldPath)) errors.push(notSupported(`${path}.fieldPath`, fieldPath, supported));
}

export function validateResourceFieldRef(errors: Errors, path: string, ref: ResourceFieldSelector, where: 'env' | 'volume'): void {
  const { resource, divisor = '0' } = ref;
  const hugePages = /^(limits|requests)\.hugepages-/.test(resource ?? '');
  if (where === 'volume' && !ref.containerName) errors.push(required(`${path}.containerName`));
  else if (!resource) errors.push(required(`${path}.resource`));
  else if (!hugePages && !containerFields.includes(resource)) errors.push(notSupported(`${path}.resource`, resource, containerFields));
  const amount = parseQuantity(divisor);
  if (amount.sign === 0 || !resource) return;
  const kind = resource.slice(resource.indexOf('.') + 1);
  const [allowed, what] =
    kind === 'cpu'
      ? [['1m', '1'], 'cpu']
      : kind === 'memory'
        ? [byteDivisors, 'memory']
        : kind === 'ephemeral-storage'
          ? [byteDivisors, 'local ephemeral storage']
          : hugePages
            ? [byteDivisors, 'hugepages']
            : [[], ''];
  if (what !== '' && !allowed.includes(amount.toString())) {
    const list = kind === 'cpu' ? '1m and 1' : byteDivisors.join(', ');
    errors.push(invalid(`${path}.divisor`, resource, `only divisor's values ${list} are supported with the ${what} resource`));
  }
}

function validateKeyToPath(errors: Errors, path: string, item: KeyToPath): void {
  validateNonEmpty(errors, `${path}.key`, item.key);
  validateNonEmpty(errors, `${path}.path`, item.path);
  validateNonReservedPath(errors, `${path}.path`, item.path ?? '');
  validateFileMode(errors, `${path}.mode`, item.mode);
}
export const validateKeysToPaths = (errors: Errors, path: string, items: readonly KeyToPath[] = []) => {
  for (const [i, item] of items.entries()) validateKeyToPath(errors, `${path}.items[${i}]`, item);
};

export function validateDownwardAPIFile(errors: Errors, path: string, file: DownwardAPIVolumeFile): void {
  validateNonEmpty(errors, `${path}.path`, file.path);
  validateNonReservedPath(errors, `${path}.path`, file.path ?? '');
  if (file.fieldRef !== undefined) {
    validateFieldRef(errors, `${path}.fieldRef`, file.fieldRef, 'volume');
    if (file.resourceFieldRef !== undefined)
      errors.push(invalid(path, 'resource', 'fieldRef and resourceFieldRef can not be specified simultaneously'));
  } else if (file.resourceFieldRef !== undefined)
    validateResourceFieldRef(errors, `${path}.resourceFieldRef`, file.resourceFieldRef, 'volume');
  else errors.push(required(path, 'one of fieldRef and resourceFieldRef is required'));
  validateFileMode(errors, `${path}.mode`, file.mode);
}

export function validateProjected(errors: Errors, path: string, volume: ProjectedVolumeSource): void {
  validateFileMode(errors, `${path}.defaultMode`, volume.defaultMode);
  const paths = new Set<string>();
  const claimPath = (file: string | undefined, fieldName: string) => {
    if (!file) return;
    if (paths.has(file)) errors.push(invalid(path, fieldName, 'conflicting duplicate paths'));
    paths.add(file);
  };
  for (const [i, source] of (volume.sources ?? []).entries()) {
    const at = `${path}.sources[${i}]`;
    for (const kind of ['secret', 'configMap'] as const) {
      const object = source[kind];
      if (object === undefined) continue;
      validateNonEmpty(errors, `${at}.${kind}.name`, object.name);
      validateKeysToPaths(errors, `${at}.${kind}`, object.items);
      for (const item of object.items ?? []) claimPath(item.path, object.name ?? '');
    }
    for (const file of source.downwardAPI?.items ?? []) {
      validateDownwardAPIFile(errors, `${at}.downwardAPI`, file);
      claimPath(file.path, file.path ?? '');
    }
    const token = source.serviceAccountToken;
    if (token !== undefined) {
      const seconds = token.expirationSeconds ?? 3600;
      if (seconds < 600)
        errors.push(invalid(`${at}.serviceAccountToken.expirationSeconds`, seconds, 'may not specify a duration less than 10 minutes'));
      if (seconds > 2 ** 32)
        errors.push(invalid(`${at}.serviceAccountToken.expirationSeconds`, seconds, 'may not specify a duration larger than 2^32 seconds'));
      if (!token.path) errors.push(required(`${path}.path`));
      else validateNonReservedPath(errors, `${path}.path`, token.path);
    }
    if (source.clusterTrustBundle !== undefined) {
      // upstream's path has the name of an older version of the field
      validateTrustBundle(errors, `${at}.clusterTrustBundlePEM`, source.clusterTrustBundle);
      claimPath(source.clusterTrustBundle.path, source.clusterTrustBundle.path ?? '');
    }
    if (source.podCertificate !== undefined) {
      validateCertificateProjection(errors, `${at}.podCertificate`, source.podCertificate);
      for (const key of certificatePaths) claimPath(source.podCertificate[key], source.podCertificate[key] ?? '');
    }
    if (Object.keys(source).length > 1) errors.push(fieldForbidden(at, 'may not specify more than 1 volume type per source'));
  }
}

function validateTrustBundle(errors: Errors, at: string, bundle: ClusterTrustBundleProjection): void {
  const { name, signerName, labelSelector, path = '' } = bundle;
  if (name !== undefined && signerName !== undefined) errors.push(invalid(at, bundle, 'only one of name and signerName may be used'));
  else if (name !== undefined) {
    if (name === '') errors.push(required(`${at}.name`, 'must be a valid object name'));
    if (labelSelector !== undefined)
      errors.push(invalid(`${at}.labelSelector`, labelSelector, 'labelSelector must be unset if name is specified'));
  } else if (signerName !== undefined) {
    if (signerName === '') errors.push(required(`${at}.signerName`, 'must be a valid signer name'));
    validateSignerName(errors, `${at}.signerName`, signerName);
    validateLabelSelector(errors, `${at}.labelSelector`, labelSelector);
  } else errors.push(required(at, 'either name or signerName must be specified'));
  validateNonEmpty(errors, `${at}.path`, path);
  validateNonReservedPath(errors, `${at}.path`, path);
}

const certificatePaths = ['credentialBundlePath', 'keyPath', 'certificateChainPath'] as const;
const keyTypes = ['RSA3072', 'RSA4096', 'ECDSAP256', 'ECDSAP384', 'ECDSAP521', 'ED25519'];
const minCertificateSeconds = 3600;
const maxCertificateSeconds = 91 * 24 * 3600;
/** The signers of Kubernetes issue certificates for at most one day. */
const maxKubernetesCertificateSeconds = 24 * 3600;

/** Validates the certificate of a pod (KEP-4317). */
function validateCertificateProjection(errors: Errors, at: string, source: PodCertificateProjection): void {
  const { keyType = '', signerName = '', maxExpirationSeconds: seconds } = source;
  validateSignerName(errors, `${at}.signerName`, signerName);
  if (!keyTypes.includes(keyType)) errors.push(notSupportedInOrder(`${at}.keyType`, keyType, keyTypes));
  const max = (signerName.split('/')[0] ?? '').endsWith('kubernetes.io') ? maxKubernetesCertificateSeconds : maxCertificateSeconds;
  if (seconds !== undefined && seconds < minCertificateSeconds)
    errors.push(invalid(`${at}.maxExpirationSeconds`, seconds, `if provided, maxExpirationSeconds must be >= ${minCertificateSeconds}`));
  if (seconds !== undefined && seconds > max)
    errors.push(invalid(`${at}.maxExpirationSeconds`, seconds, `if provided, maxExpirationSeconds must be <= ${max}`));
  const paths = certificatePaths.filter((key) => source[key]);
  for (const key of paths) validateNonReservedPath(errors, `${at}.${key}`, source[key] ?? '');
  if (paths.length === 0) errors.push(required(at, 'specify at least one of credentialBundlePath, keyPath, and certificateChainPath'));
}
