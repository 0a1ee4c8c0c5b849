import { duplicate, fieldForbidden, invalid, notSupported, required } from '../../../field/field-error.ts';
import type { LoadBalancerStatus, Service, ServicePort, ServiceSpec } from '../../../generated/types/core-v1.ts';
import { ipFamily } from '../../../net/ip.ts';
import { isDns1123Subdomain, isPortNumber } from '../../../values/names.ts';
import {
  validateCIDR,
  validateDNSLabel,
  validateDNSSubdomain,
  validateDualStack,
  validateOptionalEnum,
  addInvalid,
  validateIP,
  validateNonSpecialIP,
  validateEnum,
  validatePortNumberOrName,
  validateQualifiedName,
  validateNonEmpty,
  type Errors,
} from '../checks.ts';
import { protocols } from './env.ts';
import { validateLabels } from '../../meta.ts';

const specOf = (service: Service): ServiceSpec => service.spec ?? {};
const headless = ({ clusterIPs = [] }: ServiceSpec) => clusterIPs.length === 1 && clusterIPs[0] === 'None';
const external = ({ type, externalIPs = [] }: ServiceSpec) =>
  type === 'LoadBalancer' || type === 'NodePort' || (type === 'ClusterIP' && externalIPs.length > 0);
const needsHealthCheck = ({ type, externalTrafficPolicy }: ServiceSpec) => type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
const onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'";

/** `old` is the stored Service, whose networks need not be valid. */
export function validateService(
  errors: Errors,
  service: Service,
  { allowLoopback, old }: { readonly allowLoopback: boolean; readonly old: Service | undefined },
): void {
  const spec = specOf(service);
  const { type = '', ports = [] } = spec;
  if (ports.length === 0 && !headless(spec) && type !== 'ExternalName') errors.push(required('spec.ports'));
  if (headless(spec) && (type === 'LoadBalancer' || type === 'NodePort'))
    errors.push(invalid('spec.clusterIPs[0]', 'None', `may not be set to 'None' for ${type} services`));
  if (type === 'ExternalName') validateExternalName(errors, spec);
  validateServicePorts(errors, spec);
  validateLabels(errors, 'spec.selector', spec.selector);
  validateEnum(errors, 'spec.sessionAffinity', spec.sessionAffinity, ['ClientIP', 'None']);
  validateSessionAffinity(errors, spec);
  if (type !== 'ExternalName') validateClusterIPs(errors, spec);
  for (const [i, address] of (spec.externalIPs ?? []).entries()) {
    if (validateIP(errors, `spec.externalIPs[${i}]`, address))
      validateNonSpecialIP(errors, `spec.externalIPs[${i}]`, address, allowLoopback);
  }
  validateEnum(errors, 'spec.type', type, ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort']);
  validateLoadBalancer(errors, service, new Set(old?.spec?.loadBalancerSourceRanges));
  validateTrafficPolicies(errors, spec);
}

function validateExternalName(errors: Errors, spec: ServiceSpec): void {
  for (const key of ['clusterIPs', 'ipFamilies'] as const)
    if ((spec[key] ?? []).length > 0) errors.push(fieldForbidden(`spec.${key}`, 'may not be set for ExternalName services'));
  if (spec.ipFamilyPolicy !== undefined) errors.push(fieldForbidden('spec.ipFamilyPolicy', 'may not be set for ExternalName services'));
  const name = (spec.externalName ?? '').replace(/\.$/, '');
  if (name === '') errors.push(required('spec.externalName'));
  else validateDNSSubdomain(errors, 'spec.externalName', name);
}

function validateServicePorts(errors: Errors, { ports = [], type }: ServiceSpec): void {
  const names = new Set<string>();
  for (const [i, port] of ports.entries()) {
    const at = `spec.ports[${i}]`;
    if (port.name) {
      validateDNSLabel(errors, `${at}.name`, port.name);
      if (names.has(port.name)) errors.push(duplicate(`${at}.name`, port.name));
      names.add(port.name);
    } else if (ports.length > 1) errors.push(required(`${at}.name`));
    addInvalid(errors, `${at}.port`, port.port ?? 0, isPortNumber(port.port ?? 0));
    validateEnum(errors, `${at}.protocol`, port.protocol, protocols);
    validatePortNumberOrName(errors, `${at}.targetPort`, port.targetPort);
    if (port.appProtocol !== undefined) validateQualifiedName(errors, `${at}.appProtocol`, port.appProtocol);
  }
  if (type === 'ClusterIP')
    for (const [i, port] of ports.entries())
      if (port.nodePort) errors.push(fieldForbidden(`spec.ports[${i}].nodePort`, "may not be used when `type` is 'ClusterIP'"));
  validateUnique(
    errors,
    ports,
    (port) => (port.nodePort ? `${port.protocol}/${port.nodePort}` : undefined),
    (port, i) => duplicate(`spec.ports[${i}].nodePort`, port.nodePort),
  );
  validateUnique(
    errors,
    ports,
    (port) => `${port.protocol}/${port.port}`,
    (port, i) => duplicate(`spec.ports[${i}]`, { port: port.port, protocol: port.protocol }),
  );
}
function validateUnique(
  errors: Errors,
  ports: readonly ServicePort[],
  keyOf: (port: ServicePort) => string | undefined,
  error: (port: ServicePort, i: number) => Errors[number],
): void {
  const seen = new Set<string>();
  for (const [i, port] of ports.entries()) {
    const key = keyOf(port);
    if (key === undefined) continue;
    if (seen.has(key)) errors.push(error(port, i));
    seen.add(key);
  }
}

function validateSessionAffinity(errors: Errors, { sessionAffinity: affinity, sessionAffinityConfig: config }: ServiceSpec): void {
  const path = 'spec.sessionAffinityConfig';
  if (affinity === 'None' && config !== undefined) errors.push(fieldForbidden(path, 'must not be set when session affinity is None'));
  if (affinity !== 'ClientIP') return;
  const why = 'when session affinity type is ClientIP';
  const seconds = config?.clientIP?.timeoutSeconds;
  if (config === undefined) errors.push(required(path, why));
  else if (config.clientIP === undefined) errors.push(required(`${path}.clientIP`, why));
  else if (seconds === undefined) errors.push(required(`${path}.clientIP.timeoutSeconds`, why));
  else if (seconds <= 0 || seconds > 86400)
    errors.push(invalid(`${path}.clientIP.timeoutSeconds`, seconds, 'must be greater than 0 and less than 86400'));
}

/** Validates that `clusterIP` is the first of `clusterIPs`, and that the families of the addresses match `ipFamilies`. */
function validateClusterIPs(errors: Errors, spec: ServiceSpec): void {
  const { clusterIP = '', clusterIPs = [], ipFamilies = [] } = spec;
  const path = 'spec.clusterIPs';
  if (clusterIP === '') {
    if (clusterIPs.length > 0) errors.push(invalid(path, clusterIPs, 'must be empty when `clusterIP` is not specified'));
  } else if (clusterIPs.length === 0) errors.push(required(path));
  else if (clusterIPs[0] !== clusterIP) errors.push(invalid(path, clusterIPs, 'first value must match `clusterIP`'));
  for (const [i, family] of ipFamilies.entries()) {
    validateOptionalEnum(errors, `spec.ipFamilies[${i}]`, family, ['IPv4', 'IPv6']);
    if (ipFamilies.indexOf(family) < i) errors.push(duplicate(`spec.ipFamilies[${i}]`, family));
  }
  validateOptionalEnum(errors, 'spec.ipFamilyPolicy', spec.ipFamilyPolicy, ['PreferDualStack', 'RequireDualStack', 'SingleStack']);
  let faults = false;
  for (const [i, address] of clusterIPs.entries()) {
    if (i === 0 && address === 'None') {
      if (clusterIPs.length === 1) continue;
      errors.push(invalid(path, clusterIPs, "'None' must be the first and only value"));
      faults = true;
    } else if (!validateIP(errors, `${path}[${i}]`, address)) faults = true;
  }
  if (clusterIPs.length > 2) errors.push(invalid(path, clusterIPs, 'may only hold up to 2 values'));
  if (faults || headless(spec)) return;
  validateDualStack(errors, path, { values: clusterIPs.slice(0, 2), family: ipFamily, what: 'IP' });
  for (const [i, family] of ipFamilies.entries()) {
    const address = clusterIPs[i];
    if (address !== undefined && `IPv${ipFamily(address)}` !== family)
      errors.push(invalid(`${path}[${i}]`, address, `expected an ${family} value as indicated by \`ipFamilies[${i}]\``));
  }
}

const sourceRanges = 'service.beta.kubernetes.io/load-balancer-source-ranges';
function validateLoadBalancer(errors: Errors, service: Service, existing: ReadonlySet<string>): void {
  const spec = specOf(service);
  const balanced = spec.type === 'LoadBalancer';
  const annotation = service.metadata?.annotations?.[sourceRanges];
  if ((spec.loadBalancerSourceRanges ?? []).length > 0) {
    if (!balanced) errors.push(fieldForbidden('spec.LoadBalancerSourceRanges', onlyLoadBalancer));
    for (const [i, range] of (spec.loadBalancerSourceRanges ?? []).entries())
      validateCIDR(errors, { path: `spec.LoadBalancerSourceRanges[${i}]`, existing }, range.trim());
  } else if (annotation !== undefined) {
    const path = `metadata.annotations[${sourceRanges}]`;
    if (!balanced) errors.push(fieldForbidden(path, onlyLoadBalancer));
    if (annotation.trim() !== '') for (const range of annotation.split(',')) validateCIDR(errors, { path }, range.trim());
  }
  if (spec.allocateLoadBalancerNodePorts !== undefined && !balanced)
    errors.push(fieldForbidden('spec.allocateLoadBalancerNodePorts', onlyLoadBalancer));
  if (spec.allocateLoadBalancerNodePorts === undefined && balanced) errors.push(required('allocateLoadBalancerNodePorts'));
  if (spec.loadBalancerClass !== undefined) {
    if (balanced) validateQualifiedName(errors, 'spec.loadBalancerClass', spec.loadBalancerClass);
    else errors.push(fieldForbidden('spec.loadBalancerClass', onlyLoadBalancer));
  }
}

function validateTrafficPolicies(errors: Errors, spec: ServiceSpec): void {
  const policy = spec.externalTrafficPolicy;
  if (external(spec)) validateEnum(errors, 'spec.externalTrafficPolicy', policy, ['Cluster', 'Local']);
  else if (policy) errors.push(invalid('spec.externalTrafficPolicy', policy, 'may only be set for externally-accessible services'));
  const port = spec.healthCheckNodePort ?? 0;
  if (!needsHealthCheck(spec)) {
    if (port !== 0)
      errors.push(
        invalid('spec.healthCheckNodePort', port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"),
      );
  } else if (port === 0) errors.push(required('spec.healthCheckNodePort'));
  else addInvalid(errors, 'spec.healthCheckNodePort', port, isPortNumber(port));
  if (['NodePort', 'LoadBalancer', 'ClusterIP'].includes(spec.type ?? ''))
    validateNonEmpty(errors, 'spec.internalTrafficPolicy', spec.internalTrafficPolicy);
  if (spec.internalTrafficPolicy)
    validateOptionalEnum(errors, 'spec.internalTrafficPolicy', spec.internalTrafficPolicy, ['Cluster', 'Local']);
  validateOptionalEnum(errors, 'spec.trafficDistribution', spec.trafficDistribution, ['PreferClose', 'PreferSameNode', 'PreferSameZone']);
}

export function validateServiceUpdate(errors: Errors, service: Service, old: Service): void {
  const [spec, before] = [specOf(service), specOf(old)];
  if (spec.type !== 'ExternalName' && before.type !== 'ExternalName') {
    if (!(headless(spec) && headless(before)))
      validateFirstUnchanged(errors, 'clusterIPs', {
        now: spec.clusterIPs ?? [],
        before: before.clusterIPs ?? [],
        what: 'clusterIP',
        spec,
      });
    if (!headless(spec) && !headless(before))
      validateFirstUnchanged(errors, 'ipFamilies', { now: spec.ipFamilies ?? [], before: before.ipFamilies ?? [], what: 'ipFamily', spec });
  }
  if (spec.type === 'LoadBalancer' && before.type === 'LoadBalancer' && spec.loadBalancerClass !== before.loadBalancerClass) {
    errors.push(invalid('spec.loadBalancerClass', spec.loadBalancerClass, 'may not change once set'));
  }
  if (needsHealthCheck(spec) && needsHealthCheck(before) && spec.healthCheckNodePort !== before.healthCheckNodePort)
    errors.push(fieldForbidden('spec.healthCheckNodePort', 'field is immutable'));
}

/** Validates that the first value is unchanged. A second value can be added or removed. */
function validateFirstUnchanged(
  errors: Errors,
  key: 'clusterIPs' | 'ipFamilies',
  {
    now,
    before,
    what,
    spec,
  }: { readonly now: readonly string[]; readonly before: readonly string[]; readonly what: string; readonly spec: ServiceSpec },
): void {
  const path = `spec.${key}`;
  if (now.length === before.length) {
    for (const [i, value] of before.entries())
      if (now[i] !== value) errors.push(invalid(`${path}[${key === 'clusterIPs' ? i : 0}]`, now, 'may not change once set'));
    return;
  }
  if (before.length > 0 && now.length === 0) errors.push(invalid(`${path}[0]`, now, `primary ${what} can not be unset`));
  else if (before.length > 0 && now[0] !== before[0]) errors.push(invalid(`${path}[0]`, now, 'may not change once set'));
  if (before.length > now.length && now.length === 1 && spec.ipFamilyPolicy !== 'SingleStack') {
    errors.push(invalid('spec.ipFamilyPolicy', spec.ipFamilyPolicy, `must be set to 'SingleStack' when releasing the secondary ${what}`));
  }
}

export function validateLoadBalancerStatus(
  errors: Errors,
  path: string,
  status: LoadBalancerStatus | undefined,
  spec: ServiceSpec | undefined,
): void {
  const ingress = status?.ingress ?? [];
  if (spec?.type !== 'LoadBalancer' && ingress.length > 0) {
    errors.push(fieldForbidden(`${path}.ingress`, "may only be used when `spec.type` is 'LoadBalancer'"));
    return;
  }
  for (const [i, entry] of ingress.entries()) {
    const at = `${path}.ingress[${i}]`;
    if (entry.ip) validateIP(errors, `${at}.ip`, entry.ip);
    if (entry.ipMode === undefined) {
      if (entry.ip) errors.push(required(`${at}.ipMode`, 'must be specified when `ip` is set'));
    } else if (!entry.ip) errors.push(fieldForbidden(`${at}.ipMode`, 'may not be specified when `ip` is not set'));
    else if (entry.ipMode !== 'VIP' && entry.ipMode !== 'Proxy') errors.push(notSupported(`${at}.ipMode`, entry.ipMode, ['Proxy', 'VIP']));
    if (!entry.hostname) continue;
    addInvalid(errors, `${at}.hostname`, entry.hostname, isDns1123Subdomain(entry.hostname));
    if (ipFamily(entry.hostname) !== 0) errors.push(invalid(`${at}.hostname`, entry.hostname, 'must be a DNS name, not an IP address'));
  }
}
