import { familyOf, type IPFamily } from '@oarlock/api/net/ip-number';
import { fieldForbidden, invalid, type FieldError } from '@oarlock/api/field/field-error';
import { failure } from '@oarlock/api/status';
import type { ServicePort, ServiceSpec } from '@oarlock/api/types/core-v1';
import type { StrategyContext } from '../strategy.ts';
import type { ServiceAllocator } from './service-allocator.ts';
import { ipsOf, needsHealthCheck, needsPorts, portsOf, type MutableServiceSpec } from './service-spec.ts';

/** The write of a Service for which cluster IPs and node ports are allocated. */
export interface ServiceAllocation {
  readonly allocator: ServiceAllocator;
  /** The spec of the Service, to which allocated values are written. */
  readonly spec: MutableServiceSpec;
  /** The spec before the update; undefined for a new Service. */
  readonly before: ServiceSpec | undefined;
  readonly context: StrategyContext;
}

/** Allocates the cluster IPs that the spec leaves empty, and validates the ones that the client chose. */
export function allocateClusterIPs({ spec, before, allocator, context }: ServiceAllocation): FieldError[] {
  const held = new Set(before === undefined ? [] : ipsOf(before));
  const ips: string[] = [];
  const chosen = new Set(context.takenReservations);
  for (const [i, family] of (spec.ipFamilies ?? []).entries()) {
    const requestedIP = spec.clusterIPs?.[i] ?? '';
    if (requestedIP === '') {
      const ip = allocator.allocateIP(family as IPFamily, chosen);
      if (ip === undefined) throw failure('InternalError', 'Internal error occurred: failed to allocate a serviceIP: range is full');
      ips.push(ip);
      chosen.add(allocator.ipKey(ip));
      continue;
    }
    ips.push(requestedIP);
    // validation rejects an invalid address
    if (held.has(requestedIP) || familyOf(requestedIP) === undefined) continue;
    const reason = ipRejection({ allocator, context }, requestedIP);
    if (reason !== undefined) return [invalid('spec.clusterIPs', spec.clusterIPs, `failed to allocate IP ${requestedIP}: ${reason}`)];
  }
  spec.clusterIPs = [...ips, ...(spec.clusterIPs ?? []).slice(ips.length)];
  spec.clusterIP = ips[0] ?? spec.clusterIP ?? '';
  return [];
}

/** Returns the reason why an address that the client chose cannot be allocated; undefined if it can. */
function ipRejection({ allocator, context }: Pick<ServiceAllocation, 'allocator' | 'context'>, ip: string): string | undefined {
  if (allocator.rangeOf(ip) === undefined)
    return `the provided IP (${ip}) is not in the valid range. The range of valid IPs is ${allocator.cidrs(familyOf(ip))}`;
  const key = allocator.ipKey(ip);
  return context.takenReservations.has(key) || (context.dryRun && allocator.isAllocated(key))
    ? 'provided IP is already allocated'
    : undefined;
}

/** Allocates the node ports and the health check node port that the spec leaves empty, and validates the ones that the client chose. */
export function allocateNodePorts(allocation: ServiceAllocation): FieldError[] {
  const ports = new NodePorts(allocation);
  const portErrors = needsPorts(allocation.spec) && allocation.spec.ports !== undefined ? ports.allocate() : [];
  return [...portErrors, ...ports.allocateHealthCheckPort()];
}

/** The node ports that one write of a Service allocates. */
class NodePorts {
  readonly #allocation: ServiceAllocation;
  /** The node ports that are already allocated to the Service. */
  readonly #held: ReadonlySet<number>;
  /** The keys of ports that cannot be allocated: ports that this write already uses, and ports that an earlier commit attempt found taken. */
  readonly #chosen: Set<string>;

  constructor(allocation: ServiceAllocation) {
    this.#allocation = allocation;
    this.#held = new Set(allocation.before === undefined ? [] : portsOf(allocation.before));
    this.#chosen = new Set(allocation.context.takenReservations);
  }

  /** Allocates the node ports of `spec.ports`, and returns the errors. */
  allocate(): FieldError[] {
    const { spec, allocator } = this.#allocation;
    const ports = spec.ports ?? [];
    const isAutomatic = spec.type === 'NodePort' || spec.allocateLoadBalancerNodePorts !== false;
    const errors: FieldError[] = [];
    const nodePortByPort = new Map<number, number>();
    for (const { port, nodePort = 0 } of ports) {
      if (nodePort === 0) continue;
      if (!nodePortByPort.has(port)) nodePortByPort.set(port, nodePort);
      this.#chosen.add(allocator.portKey(nodePort));
    }
    spec.ports = ports.map((port, i) => {
      if ((port.nodePort ?? 0) !== 0) {
        const reason = this.#rejection(port.nodePort ?? 0);
        if (reason !== undefined) errors.push(invalid(`spec.ports[${i}].nodePort`, port.nodePort, reason));
        return port;
      }
      if (!isAutomatic) return port;
      // ports with the same number for TCP and UDP share one node port
      const shared = nodePortByPort.get(port.port);
      const nodePort = shared !== undefined && isSharable(ports, port, shared) ? shared : this.#next();
      nodePortByPort.set(port.port, nodePort);
      return { ...port, nodePort };
    });
    return errors;
  }

  /** Allocates `spec.healthCheckNodePort` if the Service needs it, and returns the errors. */
  allocateHealthCheckPort(): readonly FieldError[] {
    const { spec, before } = this.#allocation;
    const { healthCheckNodePort = 0 } = spec;
    if (needsHealthCheck(spec)) {
      const reason = healthCheckNodePort === 0 ? undefined : this.#rejection(healthCheckNodePort);
      if (reason !== undefined)
        throw failure(
          'InternalError',
          `Internal error occurred: failed to allocate requested HealthCheck NodePort ${healthCheckNodePort}: ${reason}`,
        );
      if (healthCheckNodePort === 0) spec.healthCheckNodePort = this.#next();
      return [];
    }
    return healthCheckNodePort !== 0 && before !== undefined
      ? [fieldForbidden('spec.healthCheckNodePort', 'may only be set when `type` is LoadBalancer and `externalTrafficPolicy` is Local')]
      : [];
  }

  #next(): number {
    const { allocator } = this.#allocation;
    const port = allocator.allocatePort(this.#chosen);
    if (port === undefined) throw failure('InternalError', 'Internal error occurred: failed to allocate a nodePort: range is full');
    this.#chosen.add(allocator.portKey(port));
    return port;
  }

  /** Returns the reason why a port that the client chose cannot be allocated; undefined if it can. */
  #rejection(port: number): string | undefined {
    const { allocator, context } = this.#allocation;
    if (this.#held.has(port)) return undefined;
    if (!allocator.hasPort(port)) return `provided port is not in the valid range. The range of valid ports is ${allocator.portRange}`;
    const key = allocator.portKey(port);
    return context.takenReservations.has(key) || (context.dryRun && allocator.isAllocated(key))
      ? 'provided port is already allocated'
      : undefined;
  }
}

/** Returns true if no other port with the same protocol uses the node port. */
function isSharable(ports: readonly ServicePort[], port: ServicePort, nodePort: number): boolean {
  const protocol = port.protocol ?? 'TCP';
  return !ports.some((other) => other !== port && other.nodePort === nodePort && (other.protocol ?? 'TCP') === protocol);
}
