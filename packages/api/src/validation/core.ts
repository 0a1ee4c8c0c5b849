import { duplicate, fieldForbidden, invalid, required, tooLong } from '../field-error.ts';
import type { ConfigMap, Endpoints, Namespace, Node, Secret, Taint } from '../generated/types/core-v1.ts';
import { cidrFamily } from '../ip.ts';
import { jsonEqual } from '../json.ts';
import { goSyntaxError } from '../json-fault.ts';
import { isConfigMapKey, isDns1123Subdomain, isLabelValue, isPortNumber, isQualifiedName } from '../names.ts';
import { taintEffect } from './affinity.ts';
import { cidr, dnsLabel, dualStack, immutable, invalidEach, ip, nonSpecialIp, oneOf, qualifiedName, type Errors } from './checks.ts';
import { protocols } from './env.ts';
import { finalizerName } from './meta.ts';
import { resourceQuantity } from './resources.ts';

/** Of all data of one ConfigMap or Secret, in bytes. */
export const maxDataSize = 1024 * 1024;
const locked = 'field is immutable when `immutable` is set';
const decodedSize = (base64: string) => (base64.length / 4) * 3 - (base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0);
type Entries = Readonly<Record<string, string>>;

function keys(errors: Errors, path: string, data: Entries): void {
  for (const key of Object.keys(data)) invalidEach(errors, `${path}[${key}]`, key, isConfigMapKey(key));
}

function lock(errors: Errors, now: ConfigMap | Secret, old: ConfigMap | Secret | undefined, fields: readonly string[]): void {
  if (old?.immutable !== true) return;
  if (now.immutable !== true) errors.push(fieldForbidden('immutable', locked));
  const [a, b] = [now, old] as unknown as readonly [Readonly<Record<string, unknown>>, Readonly<Record<string, unknown>>];
  for (const field of fields) if (!jsonEqual(a[field] ?? {}, b[field] ?? {})) errors.push(fieldForbidden(field, locked));
}

export function configMap(errors: Errors, map: ConfigMap, old?: ConfigMap): void {
  lock(errors, map, old, ['data', 'binaryData']);
  const { data = {}, binaryData = {} } = map;
  keys(errors, 'data', data);
  for (const key of Object.keys(data))
    if (Object.hasOwn(binaryData, key)) errors.push(invalid(`data[${key}]`, key, 'duplicate of key present in binaryData'));
  keys(errors, 'binaryData', binaryData);
  const size =
    Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text), 0) +
    Object.values(binaryData).reduce((sum, text) => sum + decodedSize(text), 0);
  if (size > maxDataSize) errors.push(tooLong('', maxDataSize));
}

/** Keys that a Secret of a well-known type has to hold. */
const secretKeys: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/dockercfg': ['.dockercfg'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
};
const serviceAccountName = 'kubernetes.io/service-account.name';

export function secret(errors: Errors, value: Secret, old?: Secret): void {
  if (old !== undefined) immutable(errors, 'type', value.type, old.type);
  lock(errors, value, old, ['data']);
  const { data = {}, type = '' } = value;
  keys(errors, 'data', data);
  if (Object.values(data).reduce((sum, text) => sum + decodedSize(text), 0) > maxDataSize) errors.push(tooLong('data', maxDataSize));
  if (type === 'kubernetes.io/service-account-token' && !value.metadata?.annotations?.[serviceAccountName])
    errors.push(required(`metadata.annotations[${serviceAccountName}]`));
  if (type === 'kubernetes.io/basic-auth' && data['username'] === undefined && data['password'] === undefined)
    errors.push(required('data[username]'), required('data[password]'));
  for (const key of Object.hasOwn(secretKeys, type) ? (secretKeys[type] ?? []) : []) {
    const content = data[key];
    if (content === undefined || (content === '' && type === 'kubernetes.io/ssh-auth')) errors.push(required(`data[${key}]`));
    else if (key.startsWith('.docker')) jsonObject(errors, `data[${key}]`, content);
  }
}
function jsonObject(errors: Errors, path: string, base64: string): void {
  let why = 'json: cannot unmarshal into Go value of type map[string]interface {}';
  const text = Buffer.from(base64, 'base64').toString('utf8');
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && !Array.isArray(value)) return;
  } catch {
    // a character of it at most, as Go says it
    why = goSyntaxError(text) ?? why;
  }
  errors.push(invalid(path, '<secret contents redacted>', why));
}

export function namespace(errors: Errors, value: Namespace): void {
  for (const name of value.spec?.finalizers ?? []) {
    invalidEach(errors, 'spec.finalizers', name, isQualifiedName(name));
    finalizerName(errors, 'spec.finalizers', name);
  }
}
export function namespaceStatus(errors: Errors, value: Namespace): void {
  const phase = value.status?.phase ?? '';
  const deleting = value.metadata?.deletionTimestamp !== undefined;
  if (!deleting && phase !== 'Active') errors.push(invalid('status.Phase', phase, "may only be 'Active' if `deletionTimestamp` is empty"));
  if (deleting && phase !== 'Terminating')
    errors.push(invalid('status.Phase', phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"));
}

function taints(errors: Errors, path: string, list: readonly Taint[]): void {
  const seen = new Set<string>();
  for (const [i, taint] of list.entries()) {
    const at = `${path}[${i}]`;
    qualifiedName(errors, `${at}.key`, taint.key ?? '');
    const messages = isLabelValue(taint.value ?? '');
    if (messages.length > 0) errors.push(invalid(`${at}.value`, taint.value, messages.join(';')));
    taintEffect(errors, `${at}.effect`, taint.effect, false);
    const key = `${taint.key}:${taint.effect}`;
    if (seen.has(key))
      errors.push({ ...duplicate(at, taint), message: `${duplicate(at, taint).message}: taints must be unique by key and effect pair` });
    seen.add(key);
  }
}

export function node(errors: Errors, value: Node, old?: Node): void {
  const { spec = {}, status = {} } = value;
  taints(errors, 'metadata.taints', spec.taints ?? []);
  for (const list of ['capacity', 'allocatable'] as const) {
    for (const [name, quantity] of Object.entries(status[list] ?? {})) resourceQuantity(errors, `status.${list}.${name}`, name, quantity);
  }
  const cidrs = spec.podCIDRs ?? [];
  if (old === undefined) {
    for (const [i, range] of cidrs.entries()) cidr(errors, `spec.podCIDRs[${i}]`, range);
    dualStack(errors, 'spec.podCIDRs', cidrs, cidrFamily, 'CIDR');
    return;
  }
  const before = old.spec ?? {};
  for (const [i, address] of (status.addresses ?? []).entries()) {
    if ((status.addresses ?? []).findIndex((other) => jsonEqual(other, address)) < i)
      errors.push(duplicate(`status.addresses[${i}]`, address));
  }
  if ((before.podCIDRs ?? []).length > 0 && !jsonEqual(before.podCIDRs, cidrs))
    errors.push(fieldForbidden('spec.podCIDRs', 'node updates may not change podCIDR except from "" to valid'));
  if (before.providerID && before.providerID !== spec.providerID)
    errors.push(fieldForbidden('spec.providerID', 'node updates may not change providerID except from "" to valid'));
  if ((spec.externalID ?? '') !== (before.externalID ?? '')) errors.push(fieldForbidden('spec.externalID', 'may not be updated'));
}

export function endpoints(errors: Errors, { subsets = [] }: Endpoints, allowLoopback: boolean): void {
  for (const [i, subset] of subsets.entries()) {
    const path = `subsets[${i}]`;
    if ((subset.addresses ?? []).length === 0 && (subset.notReadyAddresses ?? []).length === 0)
      errors.push(required(path, 'must specify `addresses` or `notReadyAddresses`'));
    for (const key of ['addresses', 'notReadyAddresses'] as const) {
      for (const [j, address] of (subset[key] ?? []).entries()) {
        const at = `${path}.${key}[${j}]`;
        ip(errors, `${at}.ip`, address.ip ?? '');
        if (address.hostname) dnsLabel(errors, `${at}.hostname`, address.hostname);
        if (address.nodeName !== undefined) invalidEach(errors, `${at}.nodeName`, address.nodeName, isDns1123Subdomain(address.nodeName));
        nonSpecialIp(errors, `${at}.ip`, address.ip ?? '', allowLoopback);
      }
    }
    for (const [j, port] of (subset.ports ?? []).entries()) {
      const at = `${path}.ports[${j}]`;
      if (port.name) dnsLabel(errors, `${at}.name`, port.name);
      else if ((subset.ports ?? []).length > 1) errors.push(required(`${at}.name`));
      invalidEach(errors, `${at}.port`, port.port ?? 0, isPortNumber(port.port ?? 0));
      oneOf(errors, `${at}.protocol`, port.protocol, protocols);
      if (port.appProtocol !== undefined) qualifiedName(errors, `${at}.appProtocol`, port.appProtocol);
    }
  }
}
