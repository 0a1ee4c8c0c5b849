import { fieldForbidden, invalid, notSupported, required, tooLong } from '../../field/field-error.ts';
import type {
  HTTPIngressPath,
  Ingress,
  IngressBackend,
  IngressClass,
  IPAddress,
  IPAddressSpec,
  NetworkPolicy,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  ServiceCIDR,
} from '../../generated/types/networking-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { formatCIDR, parseCIDR } from '../../net/cidr.ts';
import { cidrFamily, ipFamily } from '../../net/ip.ts';
import {
  isDns1123Label,
  isDns1123Subdomain,
  isPathSegmentName,
  isPortName,
  isPortNumber,
  isWildcardDns1123Subdomain,
} from '../../values/names.ts';
import {
  validateCIDR,
  validateDNSSubdomain,
  validateImmutable,
  addInvalid,
  validateEnum,
  validatePortNumberOrName,
  validateNonEmpty,
  isImmutable,
  type Errors,
} from './checks.ts';
import { validateLabelSelector } from '../meta.ts';

function validateBackend(errors: Errors, path: string, { service, resource }: IngressBackend): void {
  if (service !== undefined && resource !== undefined) {
    errors.push(invalid(path, '', 'cannot set both resource and service backends'));
    return;
  }
  if (resource !== undefined) {
    if (resource.apiGroup !== undefined)
      addInvalid(errors, `${path}.resource.apiGroup`, resource.apiGroup, isDns1123Subdomain(resource.apiGroup));
    validateNonEmpty(errors, `${path}.resource.kind`, resource.kind, 'kind is required');
    validateNonEmpty(errors, `${path}.resource.name`, resource.name, 'name is required');
    return;
  }
  if (service === undefined) {
    errors.push(invalid(path, '', 'resource or service backend is required'));
    return;
  }
  if (!service.name) errors.push(required(`${path}.service.name`));
  else addInvalid(errors, `${path}.service.name`, service.name, isDns1123Label(service.name));
  const { name = '', number = 0 } = service.port ?? {};
  if (name !== '' && number !== 0) errors.push(invalid(path, '', 'cannot set both port name & port number'));
  else if (name !== '') addInvalid(errors, `${path}.service.port.name`, name, isPortName(name));
  else if (number !== 0) addInvalid(errors, `${path}.service.port.number`, number, isPortNumber(number));
  else errors.push(required(path, 'port name or number is required'));
}

const sequences = ['//', '/./', '/../', '%2f', '%2F'];
const suffixes = ['/..', '/.'];
function validateHttpPath(errors: Errors, at: string, { path = '', pathType, backend: target }: HTTPIngressPath): void {
  if (!pathType) errors.push(required(`${at}.pathType`, 'pathType must be specified'));
  else if (pathType === 'Exact' || pathType === 'Prefix') {
    if (!path.startsWith('/')) errors.push(invalid(`${at}.path`, path, 'must be an absolute path'));
    else {
      for (const sequence of sequences)
        if (path.includes(sequence)) errors.push(invalid(`${at}.path`, path, `must not contain '${sequence}'`));
      for (const suffix of suffixes) if (path.endsWith(suffix)) errors.push(invalid(`${at}.path`, path, `cannot end with '${suffix}'`));
    }
  } else if (pathType === 'ImplementationSpecific') {
    if (path !== '' && !path.startsWith('/')) errors.push(invalid(`${at}.path`, path, 'must be an absolute path'));
  } else errors.push(notSupported(`${at}.pathType`, pathType, ['Exact', 'ImplementationSpecific', 'Prefix']));
  validateBackend(errors, `${at}.backend`, target ?? {});
}

function validateHost(errors: Errors, path: string, name: string): void {
  if (name === '') return;
  if (ipFamily(name) !== 0) errors.push(invalid(path, name, 'must be a DNS name, not an IP address'));
  else if (name.includes('*')) addInvalid(errors, path, name, isWildcardDns1123Subdomain(name));
  else addInvalid(errors, path, name, isDns1123Subdomain(name));
}

export function validateIngress(errors: Errors, { spec = {} }: Ingress): void {
  const { rules = [], tls = [], defaultBackend, ingressClassName } = spec;
  if (rules.length === 0 && defaultBackend === undefined)
    errors.push(invalid('spec', [], 'either `defaultBackend` or `rules` must be specified'));
  if (defaultBackend !== undefined) validateBackend(errors, 'spec.defaultBackend', defaultBackend);
  for (const [i, rule] of rules.entries()) {
    const at = `spec.rules[${i}]`;
    validateHost(errors, `${at}.host`, rule.host ?? '');
    if (rule.http === undefined) continue;
    const paths = rule.http.paths ?? [];
    if (paths.length === 0) errors.push(required(`${at}.http.paths`));
    for (const [j, path] of paths.entries()) validateHttpPath(errors, `${at}.http.paths[${j}]`, path);
  }
  for (const [i, { hosts = [], secretName = '' }] of tls.entries()) {
    for (const [j, name] of hosts.entries())
      addInvalid(
        errors,
        `spec.tls[${i}].hosts[${j}]`,
        name,
        name.includes('*') ? isWildcardDns1123Subdomain(name) : isDns1123Subdomain(name),
      );
    if (secretName !== '') validateDNSSubdomain(errors, `spec.tls[${i}].secretName`, secretName);
  }
  if (ingressClassName !== undefined) validateDNSSubdomain(errors, 'spec.ingressClassName', ingressClassName);
}

export function validateIngressStatus(errors: Errors, { status }: Ingress): void {
  for (const [i, { ip = '', hostname = '' }] of (status?.loadBalancer?.ingress ?? []).entries()) {
    const at = `status.loadBalancer.ingress[${i}]`;
    if (ip !== '' && ipFamily(ip) === 0) errors.push(invalid(`${at}.ip`, ip, 'must be a valid IP address'));
    if (hostname !== '') {
      validateDNSSubdomain(errors, `${at}.hostname`, hostname);
      if (ipFamily(hostname) !== 0) errors.push(invalid(`${at}.hostname`, hostname, 'must be a DNS name, not an IP address'));
    }
  }
}

export function validateIngressClass(errors: Errors, { spec = {} }: IngressClass, old?: IngressClass): void {
  const { controller = '', parameters } = spec;
  if (old !== undefined) validateImmutable(errors, 'spec.controller', controller, old.spec?.controller ?? '');
  if (controller === '') errors.push(required('spec.controller'));
  else if (controller.length > 250) errors.push(tooLong('spec.controller', 250));
  else if (!/^[^/]+\/.+$/.test(controller))
    errors.push(invalid('spec.controller', controller, 'must be a domain-prefixed path (such as "acme.io/foo")'));
  if (parameters === undefined) return;
  const at = 'spec.parameters';
  if (parameters.apiGroup !== undefined) validateDNSSubdomain(errors, `${at}.apiGroup`, parameters.apiGroup);
  validateNonEmpty(errors, `${at}.kind`, parameters.kind, 'kind is required');
  if (!parameters.name) errors.push(required(`${at}.name`, 'name is required'));
  else addInvalid(errors, `${at}.name`, parameters.name, isPathSegmentName(parameters.name));
  validateEnum(errors, `${at}.scope`, parameters.scope, ['Cluster', 'Namespace']);
  if (parameters.scope === 'Namespace' && !parameters.namespace)
    errors.push(required(`${at}.namespace`, "`parameters.scope` is set to 'Namespace'"));
  if (parameters.scope === 'Cluster' && parameters.namespace !== undefined)
    errors.push(fieldForbidden(`${at}.namespace`, "`parameters.scope` is set to 'Cluster'"));
}

function validatePolicyPorts(errors: Errors, path: string, ports: readonly NetworkPolicyPort[]): void {
  for (const [i, { protocol, port, endPort }] of ports.entries()) {
    const at = `${path}[${i}]`;
    if (protocol !== undefined && !['TCP', 'UDP', 'SCTP'].includes(protocol))
      errors.push(notSupported(`${at}.protocol`, protocol, ['SCTP', 'TCP', 'UDP']));
    if (port === undefined) {
      if (endPort !== undefined) errors.push(required(`${at}.port`, 'must be specified when specifying endPort'));
      continue;
    }
    validatePortNumberOrName(errors, `${at}.port`, port);
    if (endPort === undefined) continue;
    if (typeof port === 'string') errors.push(invalid(`${at}.endPort`, endPort, 'may not be specified when `port` is non-numeric'));
    else {
      if (endPort < port) errors.push(invalid(`${at}.endPort`, endPort, 'must be greater than or equal to `port`'));
      addInvalid(errors, `${at}.endPort`, endPort, isPortNumber(endPort));
    }
  }
}

function validatePeers(
  errors: Errors,
  { path, existing }: { readonly path: string; readonly existing: ReadonlySet<string> },
  list: readonly NetworkPolicyPeer[],
): void {
  for (const [i, { podSelector, namespaceSelector, ipBlock }] of list.entries()) {
    const at = `${path}[${i}]`;
    validateLabelSelector(errors, `${at}.podSelector`, podSelector);
    validateLabelSelector(errors, `${at}.namespaceSelector`, namespaceSelector);
    const selects = podSelector !== undefined || namespaceSelector !== undefined;
    if (ipBlock === undefined) {
      if (!selects) errors.push(required(at, 'must specify a peer'));
      continue;
    }
    if (selects) errors.push(fieldForbidden(at, 'may not specify both ipBlock and another peer'));
    if (!ipBlock.cidr) errors.push(required(`${at}.ipBlock.cidr`));
    else validateCIDR(errors, { path: `${at}.ipBlock.cidr`, existing }, ipBlock.cidr);
    for (const [j, except] of (ipBlock.except ?? []).entries()) {
      const before = errors.length;
      validateCIDR(errors, { path: `${at}.ipBlock.except[${j}]`, existing }, except);
      if (errors.length === before && !strictlyWithin(except, ipBlock.cidr ?? ''))
        errors.push(invalid(`${at}.ipBlock.except[${j}]`, except, 'must be a strict subset of `cidr`'));
    }
  }
}

function strictlyWithin(inner: string, outer: string): boolean {
  const [a, b] = [parseCIDR(inner), parseCIDR(outer)];
  if (a === undefined || b === undefined || a.family !== b.family || a.prefixLength <= b.prefixLength) return false;
  return b.first <= a.first && a.last <= b.last;
}
/** Returns the canonical form of a network: the network address in the form of RFC 5952 or as a dotted quad. */
function canonicalCIDR(range: string): string {
  const parsed = parseCIDR(range);
  return parsed === undefined ? range : formatCIDR(parsed);
}

/** Returns the networks of a policy. */
function networksOf({ spec }: NetworkPolicy): readonly string[] {
  const peers = [...(spec?.ingress ?? []).flatMap(({ from = [] }) => from), ...(spec?.egress ?? []).flatMap(({ to = [] }) => to)];
  return peers.flatMap(({ ipBlock }) => (ipBlock === undefined ? [] : [ipBlock.cidr, ...(ipBlock.except ?? [])]));
}

export function validateNetworkPolicy(errors: Errors, { spec }: NetworkPolicy, old?: NetworkPolicy): void {
  const existing = new Set(old === undefined ? [] : networksOf(old));
  validateLabelSelector(errors, 'spec.podSelector', spec?.podSelector ?? {});
  for (const [i, rule] of (spec?.ingress ?? []).entries()) {
    validatePolicyPorts(errors, `spec.ingress[${i}].ports`, rule.ports ?? []);
    validatePeers(errors, { path: `spec.ingress[${i}].from`, existing }, rule.from ?? []);
  }
  for (const [i, rule] of (spec?.egress ?? []).entries()) {
    validatePolicyPorts(errors, `spec.egress[${i}].ports`, rule.ports ?? []);
    validatePeers(errors, { path: `spec.egress[${i}].to`, existing }, rule.to ?? []);
  }
  const types = spec?.policyTypes ?? [];
  if (types.length > 2) errors.push(invalid('spec.policyTypes', types, 'may not specify more than two policyTypes'));
  else
    for (const [i, type] of types.entries())
      if (type !== 'Ingress' && type !== 'Egress') errors.push(notSupported(`spec.policyTypes[${i}]`, type, ['Egress', 'Ingress']));
}

/** Returns the reference as upstream prints it: with the fields of the internal type, which are named as in Go. */
const internalParent = (parent: IPAddressSpec['parentRef']) =>
  parent && { Group: parent.group ?? '', Resource: parent.resource, Namespace: parent.namespace ?? '', Name: parent.name };

export function validateIPAddress(errors: Errors, { spec }: IPAddress, old?: IPAddress): void {
  const { parentRef } = spec ?? {};
  if (parentRef === undefined) errors.push(required('spec.parentRef'));
  else {
    const { group = '', resource = '', name = '', namespace = '' } = parentRef;
    if (group !== '') validateDNSSubdomain(errors, 'spec.parentRef.group', group);
    if (resource === '') errors.push(required('spec.parentRef.resource'));
    else addInvalid(errors, 'spec.parentRef.resource', resource, isPathSegmentName(resource));
    if (name === '') errors.push(required('spec.parentRef.name'));
    else addInvalid(errors, 'spec.parentRef.name', name, isPathSegmentName(name));
    if (namespace !== '') addInvalid(errors, 'spec.parentRef.namespace', namespace, isPathSegmentName(namespace));
  }
  if (old !== undefined && !jsonEqual(parentRef, old.spec?.parentRef))
    errors.push(invalid('spec.parentRef', internalParent(parentRef), isImmutable));
}

export function validateServiceCIDR(errors: Errors, { spec }: ServiceCIDR, old?: ServiceCIDR): void {
  const cidrs = spec?.cidrs ?? [];
  const before = old?.spec?.cidrs;
  if (before !== undefined) {
    if (cidrs.length < before.length) validateImmutable(errors, 'spec.cidrs', cidrs, before);
    for (const [i, range] of before.entries()) if (i < cidrs.length) validateImmutable(errors, `spec.cidrs[${i}]`, cidrs[i], range);
    if (cidrs.length === before.length) return;
  }
  if (cidrs.length === 0) {
    errors.push(required('spec.cidrs', 'at least one CIDR required'));
    return;
  }
  if (cidrs.length > 2) {
    errors.push(invalid('spec.cidrs', cidrs, 'may only hold up to 2 values'));
    return;
  }
  for (const [i, range] of cidrs.entries()) {
    const count = errors.length;
    validateCIDR(errors, { path: `spec.cidrs[${i}]` }, range);
    if (errors.length === count && canonicalCIDR(range) !== range)
      errors.push(invalid(`spec.cidrs[${i}]`, range, `must be in canonical form (${JSON.stringify(canonicalCIDR(range))})`));
  }
  if (cidrs.length === 2 && cidrFamily(cidrs[0] ?? '') === cidrFamily(cidrs[1] ?? ''))
    errors.push(invalid('spec.cidrs', cidrs, 'may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64'));
}

export const isIPAddressName = (name: string): string[] => {
  if (ipFamily(name) === 0) return ['must be a valid IP address'];
  return canonicalAddress(name) === name ? [] : [`must be in canonical form (${JSON.stringify(canonicalAddress(name))})`];
};
function canonicalAddress(address: string): string {
  return ipFamily(address) === 6 ? new URL(`http://[${address}]/`).hostname.slice(1, -1) : address;
}
