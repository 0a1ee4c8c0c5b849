import type { ServicePort, ServiceSpec } from '@oarlock/api/types/core-v1';
import { isEqual, needsHealthCheck, needsIP, needsPorts, type MutableServiceSpec } from './service-spec.ts';

/** Restores the allocated values that an update omits (patchAllocatedValues upstream). */
export function patchAllocatedValues(spec: MutableServiceSpec, before: ServiceSpec): void {
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

/** Removes the values that apply only to the old Service type, unless the client changed them. Validation checks changed values. */
export function dropTypeDependentFields(spec: MutableServiceSpec, before: ServiceSpec): void {
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
  if (isExternallyAccessible(before) && !isExternallyAccessible(spec) && spec.externalTrafficPolicy === before.externalTrafficPolicy)
    delete spec.externalTrafficPolicy;
}

const isExternallyAccessible = (spec: ServiceSpec): boolean =>
  needsPorts(spec) || (spec.type === 'ClusterIP' && (spec.externalIPs ?? []).length > 0);

/** Makes `clusterIP` and `clusterIPs[0]` equal. */
export function normalizeClusterIPs(spec: MutableServiceSpec, before: ServiceSpec | undefined): void {
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
