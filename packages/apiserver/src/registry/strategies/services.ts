import { familyOf, type IPFamily } from '@oarlock/api/net/ip-number';
import { fieldForbidden, invalid, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { failure } from '@oarlock/api/status';
import type { Service, ServicePort, ServiceSpec } from '@oarlock/api/types/core-v1';
import type { Write } from '@oarlock/spi/storage';
import type { AllocationOwner, ServiceAllocator } from './service-allocator.ts';
import { specOf, statusOf, withFields, type AllocatedObject, type Strategy, type StrategyContext } from '../strategy.ts';

type Spec = { -readonly [K in keyof ServiceSpec]: ServiceSpec[K] };

const specOfService = (object: KubeObject | undefined) => specOf<ServiceSpec>(object) as ServiceSpec;
const needsIP = ({ type }: ServiceSpec) => type !== 'ExternalName';
const isHeadless = ({ clusterIP, clusterIPs }: ServiceSpec) => (clusterIPs?.[0] ?? clusterIP) === 'None';
const needsPorts = ({ type }: ServiceSpec) => type === 'NodePort' || type === 'LoadBalancer';
const needsHealthCheck = ({ type, externalTrafficPolicy }: ServiceSpec) => type === 'LoadBalancer' && externalTrafficPolicy === 'Local';
const same = (a: readonly unknown[] | undefined, b: readonly unknown[] | undefined) =>
  (a?.length ?? 0) === (b?.length ?? 0) && (a ?? []).every((item, i) => item === b?.[i]);

const ipsOf = (spec: ServiceSpec) =>
  needsIP(spec) && !isHeadless(spec)
    ? (spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP])).filter((ip) => ip !== '')
    : [];
const portsOf = (spec: ServiceSpec) =>
  [...new Set([...(spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0), spec.healthCheckNodePort ?? 0])].filter((port) => port !== 0);

/** Services get addresses and node ports from ranges of the cluster. */
export function servicesStrategy(ranges: ServiceAllocator): Strategy {
  return {
    fields: {
      'spec.clusterIP': (object) => (object as Service).spec?.clusterIP ?? '',
      'spec.type': (object) => (object as Service).spec?.type ?? '',
    },
    allowCreateOnUpdate: true,
    returnsDeletedObject: true,
    subresources: { status: { prepareForUpdate: (object, old) => withFields(object, { spec: specOfService(old) }) } },
    allocate: (object, old, context) => allocate(ranges, object, old, context),
  };
}

function allocate(
  ranges: ServiceAllocator,
  object: KubeObject | undefined,
  old: KubeObject | undefined,
  context: StrategyContext,
): AllocatedObject {
  const before = old && specOfService(old);
  if (object === undefined)
    return { object: old ?? {}, reservation: allocationOf(ranges, [], [], before, context, { namespace: '', name: '' }) };
  const name = object.metadata?.name ?? '';
  const spec: Spec = { ...specOfService(object) };
  if (before !== undefined) {
    keepAllocatedValues(spec, before);
    dropForType(spec, before);
  }
  syncClusterIPs(spec, before);
  const refuse = (errors: readonly FieldError[]) => {
    if (errors.length > 0) throw invalidStatus({ group: '', kind: 'Service', name }, errors);
  };
  if (needsIP(spec)) {
    refuse(setIPFamilies(spec, before, ranges));
    if (!isHeadless(spec)) refuse(allocateIPs(spec, before, ranges, context));
  }
  refuse(allocatePorts(spec, before, ranges, context));
  const parts = { spec, status: before === undefined ? {} : statusOf(old) };
  const owner = { namespace: object.metadata?.namespace ?? '', name };
  // what is loadBalancer's stays in status
  return {
    object: withFields(object, before === undefined ? { spec, status: { loadBalancer: {} } } : parts),
    reservation: allocationOf(ranges, ipsOf(spec), portsOf(spec), before, context, owner),
  };
}

function allocationOf(
  ranges: ServiceAllocator,
  ips: readonly string[],
  ports: readonly number[],
  before: ServiceSpec | undefined,
  { takenReservations: taken, now }: StrategyContext,
  owner: AllocationOwner,
): AllocatedObject['reservation'] {
  const wanted = new Set([...ips.map((ip) => ranges.ipKey(ip)), ...ports.map((port) => ranges.portKey(port))]);
  const held = new Set(
    before === undefined ? [] : [...ipsOf(before).map((ip) => ranges.ipKey(ip)), ...portsOf(before).map((port) => ranges.portKey(port))],
  );
  const acquired = [...wanted].filter((key) => !held.has(key));
  const released = [...held].filter((key) => !wanted.has(key));
  if (acquired.length === 0 && released.length === 0) return undefined;
  const writes: Write[] = [
    ...acquired.map((key) => ({ key, value: ranges.valueOf(key, owner, now) })),
    ...released.map((key) => ({ key, value: null })),
  ];
  return {
    writes,
    expect: acquired.map((key) => ({ key, revision: 0 })),
    onConflict(key) {
      taken.add(key);
      ranges.setAllocated(key, true);
    },
  };
}

/** A client that leaves out what the server gave keeps it. */
function keepAllocatedValues(spec: Spec, before: ServiceSpec): void {
  if (needsIP(spec) && needsIP(before)) {
    if ((spec.clusterIP ?? '') === '' && before.clusterIP !== undefined) spec.clusterIP = before.clusterIP;
    if (spec.clusterIPs === undefined && spec.clusterIP === before.clusterIP && before.clusterIPs !== undefined)
      spec.clusterIPs = before.clusterIPs;
  }
  if (needsPorts(spec) && needsPorts(before)) {
    const used = new Set((spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0));
    const portKey = ({ port, protocol }: ServicePort) => `${port}/${protocol ?? 'TCP'}`;
    const known = new Map((before.ports ?? []).map((port) => [portKey(port), port.nodePort ?? 0]));
    if (spec.ports !== undefined) {
      spec.ports = spec.ports.map((port) => {
        const kept = known.get(portKey(port)) ?? 0;
        if ((port.nodePort ?? 0) !== 0 || kept === 0 || used.has(kept)) return port;
        return { ...port, nodePort: kept };
      });
    }
  }
  if (
    needsHealthCheck(spec) &&
    needsHealthCheck(before) &&
    (spec.healthCheckNodePort ?? 0) === 0 &&
    before.healthCheckNodePort !== undefined
  )
    spec.healthCheckNodePort = before.healthCheckNodePort;
}

/** What only the former type had goes with it, unless the client changed it: then validation has its say. */
function dropForType(spec: Spec, before: ServiceSpec): void {
  if (needsIP(before) && !needsIP(spec)) {
    if (same(spec.clusterIPs, before.clusterIPs) && (spec.clusterIP === before.clusterIP || spec.clusterIP === undefined)) {
      delete spec.clusterIP;
      delete spec.clusterIPs;
    }
    if (same(spec.ipFamilies, before.ipFamilies)) delete spec.ipFamilies;
    if (spec.ipFamilyPolicy === before.ipFamilyPolicy) delete spec.ipFamilyPolicy;
  }
  if (
    needsPorts(before) &&
    !needsPorts(spec) &&
    (spec.ports ?? []).every(({ nodePort }, i) => (nodePort ?? 0) === 0 || nodePort === before.ports?.[i]?.nodePort)
  ) {
    if (spec.ports !== undefined) spec.ports = spec.ports.map(({ nodePort: _port, ...port }) => port);
  }
  if (needsHealthCheck(before) && !needsHealthCheck(spec) && spec.healthCheckNodePort === before.healthCheckNodePort)
    delete spec.healthCheckNodePort;
  if (before.type === 'LoadBalancer' && spec.type !== 'LoadBalancer') {
    if (spec.allocateLoadBalancerNodePorts === before.allocateLoadBalancerNodePorts) delete spec.allocateLoadBalancerNodePorts;
    if (spec.loadBalancerClass === before.loadBalancerClass) delete spec.loadBalancerClass;
  }
  if (
    needsPorts(before) &&
    !needsPorts(spec) &&
    (spec.externalIPs ?? []).length === 0 &&
    spec.externalTrafficPolicy === before.externalTrafficPolicy
  )
    delete spec.externalTrafficPolicy;
}

/** `clusterIP` and `clusterIPs[0]` are one. */
function syncClusterIPs(spec: Spec, before: ServiceSpec | undefined): void {
  if (before === undefined) {
    if ((spec.clusterIP ?? '') !== '' && (spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [spec.clusterIP ?? ''];
    else if ((spec.clusterIP ?? '') === '' && (spec.clusterIPs?.[0] ?? '') !== '') spec.clusterIP = spec.clusterIPs?.[0] ?? '';
    return;
  }
  if (spec.clusterIP === before.clusterIP || !same(spec.clusterIPs, before.clusterIPs)) {
    if ((spec.clusterIP ?? '') !== '' && (spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [spec.clusterIP ?? ''];
    return;
  }
  if ((spec.clusterIP ?? '') === '') delete spec.clusterIPs;
  else spec.clusterIPs = [spec.clusterIP ?? ''];
}

/** KEP-563: which families a Service has. */
function setIPFamilies(spec: Spec, before: ServiceSpec | undefined, ranges: ServiceAllocator): FieldError[] {
  const available = ranges.families;
  const [primary = 'IPv4'] = available;
  const selectorless = Object.keys(spec.selector ?? {}).length === 0;
  const alone = isHeadless(spec) && selectorless;
  spec.ipFamilyPolicy ??= before?.ipFamilyPolicy ?? (alone ? 'RequireDualStack' : 'SingleStack');
  const policy = spec.ipFamilyPolicy;
  const errors: FieldError[] = [];
  if (before !== undefined && policy === 'SingleStack') {
    if (same(spec.clusterIPs, before.clusterIPs) && (spec.clusterIPs?.length ?? 0) > 1)
      spec.clusterIPs = spec.clusterIPs?.slice(0, 1) ?? [];
    if (same(spec.ipFamilies, before.ipFamilies) && (spec.ipFamilies?.length ?? 0) > 1)
      spec.ipFamilies = spec.ipFamilies?.slice(0, 1) ?? [];
  } else if (policy === 'SingleStack') {
    if ((spec.clusterIPs?.length ?? 0) > 1)
      errors.push(
        invalid('spec.ipFamilyPolicy', policy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"),
      );
    if ((spec.ipFamilies?.length ?? 0) > 1)
      errors.push(
        invalid('spec.ipFamilyPolicy', policy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"),
      );
  }
  const named: string[] = [...(spec.ipFamilies ?? [])];
  for (const [i, ip] of (spec.clusterIPs ?? []).entries()) {
    const family = ip === 'None' || ip === '' ? undefined : familyOf(ip);
    if (family === undefined || i < named.length) continue;
    if (available.includes(family)) named.push(family);
    else errors.push(invalid(`spec.clusterIPs[${i}]`, spec.clusterIPs, `${family} is not configured on this cluster`));
  }
  if (errors.length > 0) return errors;
  if (named.length === 0) named.push(primary);
  const dual = policy !== 'SingleStack' && named.length === 1;
  if (alone) {
    if (dual) named.push(named[0] === 'IPv4' ? 'IPv6' : 'IPv4');
  } else {
    if (policy === 'RequireDualStack' && available.length < 2)
      errors.push(invalid('spec.ipFamilyPolicy', policy, 'this cluster is not configured for dual-stack services'));
    for (const [i, family] of named.entries())
      if (!available.includes(family as IPFamily)) errors.push(invalid(`spec.ipFamilies[${i}]`, family, 'not configured on this cluster'));
    if (dual && available.length === 2) named.push(named[0] === 'IPv4' ? 'IPv6' : 'IPv4');
  }
  spec.ipFamilies = named;
  return errors;
}

function allocateIPs(spec: Spec, before: ServiceSpec | undefined, ranges: ServiceAllocator, context: StrategyContext): FieldError[] {
  const held = new Set(before === undefined ? [] : ipsOf(before));
  const ips: string[] = [];
  const chosen = new Set(context.takenReservations);
  for (const [i, family] of (spec.ipFamilies ?? []).entries()) {
    const asked = spec.clusterIPs?.[i] ?? '';
    if (asked === '') {
      const ip = ranges.allocateIP(family as IPFamily, chosen);
      if (ip === undefined) throw failure('InternalError', 'Internal error occurred: failed to allocate a serviceIP: range is full');
      ips.push(ip);
      chosen.add(ranges.ipKey(ip));
      continue;
    }
    ips.push(asked);
    // an address that is none is left for validation to refuse
    if (held.has(asked) || familyOf(asked) === undefined) continue;
    const failed = (why: string) => [invalid('spec.clusterIPs', spec.clusterIPs, `failed to allocate IP ${asked}: ${why}`)];
    if (ranges.rangeOf(asked) === undefined)
      return failed(`the provided IP (${asked}) is not in the valid range. The range of valid IPs is ${ranges.cidrs(familyOf(asked))}`);
    const key = ranges.ipKey(asked);
    if (context.takenReservations.has(key) || (context.dryRun && ranges.isAllocated(key)))
      return failed('provided IP is already allocated');
  }
  spec.clusterIPs = [...ips, ...(spec.clusterIPs ?? []).slice(ips.length)];
  spec.clusterIP = ips[0] ?? spec.clusterIP ?? '';
  return [];
}

function allocatePorts(spec: Spec, before: ServiceSpec | undefined, ranges: ServiceAllocator, context: StrategyContext): FieldError[] {
  const held = new Set(before === undefined ? [] : portsOf(before));
  const chosen = new Set(context.takenReservations);
  const wrong = (port: number) => {
    if (held.has(port)) return undefined;
    if (!ranges.hasPort(port)) return `provided port is not in the valid range. The range of valid ports is ${ranges.portRange}`;
    const key = ranges.portKey(port);
    return context.takenReservations.has(key) || (context.dryRun && ranges.isAllocated(key))
      ? 'provided port is already allocated'
      : undefined;
  };
  const next = () => {
    const port = ranges.allocatePort(chosen);
    if (port === undefined) throw failure('InternalError', 'Internal error occurred: failed to allocate a nodePort: range is full');
    chosen.add(ranges.portKey(port));
    return port;
  };
  const errors: FieldError[] = [];
  if (needsPorts(spec) && spec.ports !== undefined) {
    const automatic = spec.type === 'NodePort' || spec.allocateLoadBalancerNodePorts !== false;
    const ports = spec.ports;
    const given = new Map<number, number>();
    for (const { port, nodePort = 0 } of ports) {
      if (nodePort === 0) continue;
      if (!given.has(port)) given.set(port, nodePort);
      chosen.add(ranges.portKey(nodePort));
    }
    spec.ports = ports.map((port, i) => {
      if ((port.nodePort ?? 0) !== 0) {
        const why = wrong(port.nodePort ?? 0);
        if (why !== undefined) errors.push(invalid(`spec.ports[${i}].nodePort`, port.nodePort, why));
        return port;
      }
      if (!automatic) return port;
      // one number for TCP and UDP on the same port
      const shared = given.get(port.port);
      const taken =
        shared !== undefined &&
        !ports.some((other) => other !== port && other.nodePort === shared && (other.protocol ?? 'TCP') === (port.protocol ?? 'TCP'))
          ? shared
          : next();
      given.set(port.port, taken);
      return { ...port, nodePort: taken };
    });
  }
  if (needsHealthCheck(spec)) {
    if ((spec.healthCheckNodePort ?? 0) === 0) spec.healthCheckNodePort = next();
    else {
      const why = wrong(spec.healthCheckNodePort ?? 0);
      if (why !== undefined)
        throw failure(
          'InternalError',
          `Internal error occurred: failed to allocate requested HealthCheck NodePort ${spec.healthCheckNodePort}: ${why}`,
        );
    }
  } else if ((spec.healthCheckNodePort ?? 0) !== 0 && before !== undefined) {
    errors.push(
      fieldForbidden('spec.healthCheckNodePort', 'may only be set when `type` is LoadBalancer and `externalTrafficPolicy` is Local'),
    );
  }
  return errors;
}
