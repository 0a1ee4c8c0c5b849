import { duplicate, fieldForbidden, invalid, required, tooLong } from '../../../field/field-error.ts';
import type { ConfigMap, Endpoints, Namespace, Node, Secret, Taint } from '../../../generated/types/core-v1.ts';
import { cidrFamily } from '../../../net/ip.ts';
import { jsonEqual } from '../../../json/json.ts';
import { goSyntaxError } from '../../../json/syntax-error.ts';
import { isConfigMapKey, isDns1123Subdomain, isLabelValue, isPortNumber, isQualifiedName } from '../../../values/names.ts';
import { validateTaintEffect } from './affinity.ts';
import {
  validateCIDR,
  validateDNSLabel,
  validateDualStack,
  validateImmutable,
  addInvalid,
  validateIP,
  validateNonSpecialIP,
  validateEnum,
  validateQualifiedName,
  type Errors,
  repeatedIndexes,
} from '../checks.ts';
import { protocols } from './env.ts';
import { validateFinalizerName } from '../../meta.ts';
import { validateResourceQuantity } from '../../resources.ts';

/** The maximum sum of all data of a ConfigMap or Secret in bytes. */
export const maxDataSize = 1024 * 1024;
const locked = 'field is immutable when `immutable` is set';
const decodedSize = (base64: string) => (base64.length / 4) * 3 - (base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0);
type Entries = Readonly<Record<string, string>>;

function validateKeys(errors: Errors, path: string, data: Entries): void {
  for (const key of Object.keys(data)) addInvalid(errors, `${path}[${key}]`, key, isConfigMapKey(key));
}

function validateImmutableFields(
  errors: Errors,
  now: ConfigMap | Secret,
  old: ConfigMap | Secret | undefined,
  fields: readonly string[],
): void {
  if (old?.immutable !== true) return;
  if (now.immutable !== true) errors.push(fieldForbidden('immutable', locked));
  const [a, b] = [now, old] as unknown as readonly [Readonly<Record<string, unknown>>, Readonly<Record<string, unknown>>];
  for (const field of fields) if (!jsonEqual(a[field] ?? {}, b[field] ?? {})) errors.push(fieldForbidden(field, locked));
}

export function validateConfigMap(errors: Errors, map: ConfigMap, old?: ConfigMap): void {
  validateImmutableFields(errors, map, old, ['data', 'binaryData']);
  const { data = {}, binaryData = {} } = map;
  validateKeys(errors, 'data', data);
  for (const key of Object.keys(data))
    if (Object.hasOwn(binaryData, key)) errors.push(invalid(`data[${key}]`, key, 'duplicate of key present in binaryData'));
  validateKeys(errors, 'binaryData', binaryData);
  const size =
    Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text), 0) +
    Object.values(binaryData).reduce((sum, text) => sum + decodedSize(text), 0);
  if (size > maxDataSize) errors.push(tooLong('', maxDataSize));
}

/** Required keys of Secrets of built-in types. */
const secretKeys: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/dockercfg': ['.dockercfg'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
};
const serviceAccountName = 'kubernetes.io/service-account.name';

export function validateSecret(errors: Errors, value: Secret, old?: Secret): void {
  if (old !== undefined) validateImmutable(errors, 'type', value.type, old.type);
  validateImmutableFields(errors, value, old, ['data']);
  const { data = {}, type = '' } = value;
  validateKeys(errors, 'data', data);
  if (Object.values(data).reduce((sum, text) => sum + decodedSize(text), 0) > maxDataSize) errors.push(tooLong('data', maxDataSize));
  if (type === 'kubernetes.io/service-account-token' && !value.metadata?.annotations?.[serviceAccountName])
    errors.push(required(`metadata.annotations[${serviceAccountName}]`));
  if (type === 'kubernetes.io/basic-auth' && data['username'] === undefined && data['password'] === undefined)
    errors.push(required('data[username]'), required('data[password]'));
  for (const key of Object.hasOwn(secretKeys, type) ? (secretKeys[type] ?? []) : []) {
    const content = data[key];
    if (content === undefined || (content === '' && type === 'kubernetes.io/ssh-auth')) errors.push(required(`data[${key}]`));
    else if (key.startsWith('.docker')) validateJsonObject(errors, `data[${key}]`, content);
  }
}
function validateJsonObject(errors: Errors, path: string, base64: string): void {
  let why = 'json: cannot unmarshal into Go value of type map[string]interface {}';
  const text = Buffer.from(base64, 'base64').toString('utf8');
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && !Array.isArray(value)) return;
  } catch {
    // Go's message names only the invalid character
    why = goSyntaxError(text) ?? why;
  }
  errors.push(invalid(path, '<secret contents redacted>', why));
}

export function validateNamespace(errors: Errors, value: Namespace): void {
  for (const name of value.spec?.finalizers ?? []) {
    addInvalid(errors, 'spec.finalizers', name, isQualifiedName(name));
    validateFinalizerName(errors, 'spec.finalizers', name);
  }
}
export function validateNamespaceStatus(errors: Errors, value: Namespace): void {
  const phase = value.status?.phase ?? '';
  const deleting = value.metadata?.deletionTimestamp !== undefined;
  if (!deleting && phase !== 'Active') errors.push(invalid('status.Phase', phase, "may only be 'Active' if `deletionTimestamp` is empty"));
  if (deleting && phase !== 'Terminating')
    errors.push(invalid('status.Phase', phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"));
}

function validateTaints(errors: Errors, path: string, list: readonly Taint[]): void {
  const seen = new Set<string>();
  for (const [i, taint] of list.entries()) {
    const at = `${path}[${i}]`;
    validateQualifiedName(errors, `${at}.key`, taint.key ?? '');
    const messages = isLabelValue(taint.value ?? '');
    if (messages.length > 0) errors.push(invalid(`${at}.value`, taint.value, messages.join(';')));
    validateTaintEffect(errors, `${at}.effect`, taint.effect, false);
    const key = `${taint.key}:${taint.effect}`;
    if (seen.has(key))
      errors.push({ ...duplicate(at, taint), message: `${duplicate(at, taint).message}: taints must be unique by key and effect pair` });
    seen.add(key);
  }
}

export function validateNode(errors: Errors, value: Node, old?: Node): void {
  const { spec = {}, status = {} } = value;
  validateTaints(errors, 'metadata.taints', spec.taints ?? []);
  for (const list of ['capacity', 'allocatable'] as const) {
    for (const [name, quantity] of Object.entries(status[list] ?? {}))
      validateResourceQuantity(errors, `status.${list}.${name}`, name, quantity);
  }
  const cidrs = spec.podCIDRs ?? [];
  if (old === undefined) {
    for (const [i, range] of cidrs.entries()) validateCIDR(errors, { path: `spec.podCIDRs[${i}]` }, range);
    validateDualStack(errors, 'spec.podCIDRs', { values: cidrs, family: cidrFamily, what: 'CIDR' });
    return;
  }
  const before = old.spec ?? {};
  const addresses = status.addresses ?? [];
  for (const i of repeatedIndexes(addresses, ({ type, address }) => JSON.stringify([type, address])))
    errors.push(duplicate(`status.addresses[${i}]`, addresses[i]));
  if ((before.podCIDRs ?? []).length > 0 && !jsonEqual(before.podCIDRs, cidrs))
    errors.push(fieldForbidden('spec.podCIDRs', 'node updates may not change podCIDR except from "" to valid'));
  if (before.providerID && before.providerID !== spec.providerID)
    errors.push(fieldForbidden('spec.providerID', 'node updates may not change providerID except from "" to valid'));
  if ((spec.externalID ?? '') !== (before.externalID ?? '')) errors.push(fieldForbidden('spec.externalID', 'may not be updated'));
}

export function validateEndpoints(errors: Errors, { subsets = [] }: Endpoints, allowLoopback: boolean): void {
  for (const [i, subset] of subsets.entries()) {
    const path = `subsets[${i}]`;
    if ((subset.addresses ?? []).length === 0 && (subset.notReadyAddresses ?? []).length === 0)
      errors.push(required(path, 'must specify `addresses` or `notReadyAddresses`'));
    for (const key of ['addresses', 'notReadyAddresses'] as const) {
      for (const [j, address] of (subset[key] ?? []).entries()) {
        const at = `${path}.${key}[${j}]`;
        validateIP(errors, `${at}.ip`, address.ip ?? '');
        if (address.hostname) validateDNSLabel(errors, `${at}.hostname`, address.hostname);
        if (address.nodeName !== undefined) addInvalid(errors, `${at}.nodeName`, address.nodeName, isDns1123Subdomain(address.nodeName));
        validateNonSpecialIP(errors, `${at}.ip`, address.ip ?? '', allowLoopback);
      }
    }
    for (const [j, port] of (subset.ports ?? []).entries()) {
      const at = `${path}.ports[${j}]`;
      if (port.name) validateDNSLabel(errors, `${at}.name`, port.name);
      else if ((subset.ports ?? []).length > 1) errors.push(required(`${at}.name`));
      addInvalid(errors, `${at}.port`, port.port ?? 0, isPortNumber(port.port ?? 0));
      validateEnum(errors, `${at}.protocol`, port.protocol, protocols);
      if (port.appProtocol !== undefined) validateQualifiedName(errors, `${at}.appProtocol`, port.appProtocol);
    }
  }
}
