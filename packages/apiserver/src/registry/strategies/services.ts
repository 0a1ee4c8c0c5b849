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
const isEqual = (a: readonly unknown[] | undefined, b: readonly unknown[] | undefined) =>
  (a?.length ?? 0) === (b?.length ?? 0) && (a ?? []).every((item, i) => item === b?.[i]);

const ipsOf = (spec: ServiceSpec) =>
  needsIP(spec) && !isHeadless(spec)
    ? (spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP])).filter((ip) => ip !== '')
    : [];
const portsOf = (spec: ServiceSpec) =>
  [...new Set([...(spec.ports ?? []).map(({ nodePort }) => nodePort ?? 0), spec.healthCheckNodePort ?? 0])].filter((port) => port !== 0);

/** Returns the strategy of Services, which allocates cluster IPs and node ports. */
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
  const throwIfInvalid = (errors: readonly FieldError[]) => {
    if (errors.length > 0) throw invalidStatus({ group: '', kind: 'Service', name }, errors);
  };
  if (needsIP(spec)) {
    throwIfInvalid(setIPFamilies(spec, before, ranges));
    if (!isHeadless(spec)) throwIfInvalid(allocateIPs(spec, before, ranges, context));
  }
  throwIfInvalid(allocatePorts(spec, before, ranges, context));
  const parts = { spec, status: before === undefined ? {} : statusOf(old) };
  const owner = { namespace: object.metadata?.namespace ?? '', name };
  // an update keeps status.loadBalancer
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
  { takenReservations: takenKeys, now }: StrategyContext,
  owner: AllocationOwner,
): AllocatedObject['reservation'] {
  const keys = new Set([...ips.map((ip) => ranges.ipKey(ip)), ...ports.map((port) => ranges.portKey(port))]);
  const heldKeys = new Set(
    before === undefined ? [] : [...ipsOf(before).map((ip) => ranges.ipKey(ip)), ...portsOf(before).map((port) => ranges.portKey(port))],
  );
  const acquired = [...keys].filter((key) => !heldKeys.has(key));
  const released = [...heldKeys].filter((key) => !keys.has(key));
  if (acquired.length === 0 && released.length === 0) return undefined;
  const writes: Write[] = [
    ...acquired.map((key) => ({ key, value: ranges.valueOf(key, owner, now) })),
    ...released.map((key) => ({ key, value: null })),
  ];
  return {
    writes,
    expect: acquired.map((key) => ({ key, revision: 0 })),
    onConflict(key) {
      takenKeys.add(key);
      ranges.setAllocated(key, true);
    },
  };
}

/** Keeps the allocated values that an update omits. */
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

/** Removes the values that only the old type had, unless the client changed them; validation then decides. */
function dropForType(spec: Spec, before: ServiceSpec): void {
  if (needsIP(before) && !needsIP(spec)) {
    if (isEqual(spec.clusterIPs, before.clusterIPs) && (spec.clusterIP === before.clusterIP || spec.clusterIP === undefined)) {
      delete spec.clusterIP;
      delete spec.clusterIPs;
    }
    if (isEqual(spec.ipFamilies, before.ipFamilies)) delete spec.ipFamilies;
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

/** Keeps `clusterIP` and `clusterIPs[0]` equal. */
function syncClusterIPs(spec: Spec, before: ServiceSpec | undefined): void {
  if (before === undefined) {
    if ((spec.clusterIP ?? '') !== '' && (spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [spec.clusterIP ?? ''];
    else if ((spec.clusterIP ?? '') === '' && (spec.clusterIPs?.[0] ?? '') !== '') spec.clusterIP = spec.clusterIPs?.[0] ?? '';
    return;
  }
  if (spec.clusterIP === before.clusterIP || !isEqual(spec.clusterIPs, before.clusterIPs)) {
    if ((spec.clusterIP ?? '') !== '' && (spec.clusterIPs ?? []).length === 0) spec.clusterIPs = [spec.clusterIP ?? ''];
    return;
  }
  if ((spec.clusterIP ?? '') === '') delete spec.clusterIPs;
  else spec.clusterIPs = [spec.clusterIP ?? ''];
}

/** Sets the IP families of a Service (KEP-563). */
function setIPFamilies(spec: Spec, before: ServiceSpec | undefined, ranges: ServiceAllocator): FieldError[] {
  const available = ranges.families;
  const [primary = 'IPv4'] = available;
  const selectorless = Object.keys(spec.selector ?? {}).length === 0;
  const alone = isHeadless(spec) && selectorless;
  spec.ipFamilyPolicy ??= before?.ipFamilyPolicy ?? (alone ? 'RequireDualStack' : 'SingleStack');
  const policy = spec.ipFamilyPolicy;
  const errors: FieldError[] = [];
  if (before !== undefined && policy === 'SingleStack') {
    if (isEqual(spec.clusterIPs, before.clusterIPs) && (spec.clusterIPs?.length ?? 0) > 1)
      spec.clusterIPs = spec.clusterIPs?.slice(0, 1) ?? [];
    if (isEqual(spec.ipFamilies, before.ipFamilies) && (spec.ipFamilies?.length ?? 0) > 1)
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
  const families: string[] = [...(spec.ipFamilies ?? [])];
  for (const [i, ip] of (spec.clusterIPs ?? []).entries()) {
    const family = ip === 'None' || ip === '' ? undefined : familyOf(ip);
    if (family === undefined || i < families.length) continue;
    if (available.includes(family)) families.push(family);
    else errors.push(invalid(`spec.clusterIPs[${i}]`, spec.clusterIPs, `${family} is not configured on this cluster`));
  }
  if (errors.length > 0) return errors;
  if (families.length === 0) families.push(primary);
  const dual = policy !== 'SingleStack' && families.length === 1;
  if (alone) {
    if (dual) families.push(families[0] === 'IPv4' ? 'IPv6' : 'IPv4');
  } else {
    if (policy === 'RequireDualStack' && available.length < 2)
      errors.push(invalid('spec.ipFamilyPolicy', policy, 'this cluster is not configured for dual-stack services'));
    for (const [i, family] of families.entries())
      if (!available.includes(family as IPFamily)) errors.push(invalid(`spec.ipFamilies[${i}]`, family, 'not configured on this cluster'));
    if (dual && available.length === 2) families.push(families[0] === 'IPv4' ? 'IPv6' : 'IPv4');
  }
  spec.ipFamilies = families;
  return errors;
}

function allocateIPs(spec: Spec, before: ServiceSpec | undefined, ranges: ServiceAllocator, context: StrategyContext): FieldError[] {
  const held = new Set(before === undefined ? [] : ipsOf(before));
  const ips: string[] = [];
  const chosen = new Set(context.takenReservations);
  for (const [i, family] of (spec.ipFamilies ?? []).entries()) {
    const requestedIP = spec.clusterIPs?.[i] ?? '';
    if (requestedIP === '') {
      const ip = ranges.allocateIP(family as IPFamily, chosen);
      if (ip === undefined) throw failure('InternalError', 'Internal error occurred: failed to allocate a serviceIP: range is full');
      ips.push(ip);
      chosen.add(ranges.ipKey(ip));
      continue;
    }
    ips.push(requestedIP);
    // validation rejects an invalid address
    if (held.has(requestedIP) || familyOf(requestedIP) === undefined) continue;
    const failed = (why: string) => [invalid('spec.clusterIPs', spec.clusterIPs, `failed to allocate IP ${requestedIP}: ${why}`)];
    if (ranges.rangeOf(requestedIP) === undefined)
      return failed(
        `the provided IP (${requestedIP}) is not in the valid range. The range of valid IPs is ${ranges.cidrs(familyOf(requestedIP))}`,
      );
    const key = ranges.ipKey(requestedIP);
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
    const nodePortByPort = new Map<number, number>();
    for (const { port, nodePort = 0 } of ports) {
      if (nodePort === 0) continue;
      if (!nodePortByPort.has(port)) nodePortByPort.set(port, nodePort);
      chosen.add(ranges.portKey(nodePort));
    }
    spec.ports = ports.map((port, i) => {
      if ((port.nodePort ?? 0) !== 0) {
        const why = wrong(port.nodePort ?? 0);
        if (why !== undefined) errors.push(invalid(`spec.ports[${i}].nodePort`, port.nodePort, why));
        return port;
      }
      if (!automatic) return port;
      // ports with the same number for TCP and UDP share one node port
      const shared = nodePortByPort.get(port.port);
      const nodePort =
        shared !== undefined &&
        !ports.some((other) => other !== port && other.nodePort === shared && (other.protocol ?? 'TCP') === (port.protocol ?? 'TCP'))
          ? shared
          : next();
      nodePortByPort.set(port.port, nodePort);
      return { ...port, nodePort };
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
