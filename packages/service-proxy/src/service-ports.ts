import type { Service, ServicePort as ServicePortSpec } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

const defaultAffinitySeconds = 10_800; // of ClientIP affinity, as the API defaults it

const isAddress = (ip: string | undefined): ip is string => ip !== undefined && ip !== '' && ip !== 'None';

/**
 * The ports of one Service with where their traffic goes, from its EndpointSlices. Nothing for headless and ExternalName Services and
 * for those another proxy is to serve (`service.kubernetes.io/service-proxy-name`).
 */
export function servicePorts(service: Service, slices: readonly EndpointSlice[], nodeName: string): ServicePort[] {
  const { spec, metadata, status } = service;
  const clusterIPs = (spec?.clusterIPs ?? [spec?.clusterIP ?? '']).filter(isAddress);
  if (
    spec === undefined ||
    spec.type === 'ExternalName' ||
    clusterIPs.length === 0 ||
    metadata?.labels?.['service.kubernetes.io/service-proxy-name'] !== undefined
  )
    return [];
  const external = spec.type === 'NodePort' || spec.type === 'LoadBalancer';
  return (spec.ports ?? []).map(
    (port): ServicePort => ({
      key: `${metadata?.namespace}/${metadata?.name}:${port.name ?? ''}`,
      protocol: (port.protocol ?? 'TCP') as ServicePort['protocol'],
      port: port.port,
      clusterIPs,
      externalIPs: spec.externalIPs ?? [],
      loadBalancerIPs:
        spec.type === 'LoadBalancer'
          ? (status?.loadBalancer?.ingress ?? [])
              .filter(({ ipMode }) => ipMode !== 'Proxy')
              .map(({ ip }) => ip)
              .filter(isAddress)
          : [],
      loadBalancerSourceRanges: spec.loadBalancerSourceRanges ?? [],
      ...(external && port.nodePort ? { nodePort: port.nodePort } : {}),
      ...(spec.sessionAffinity === 'ClientIP' && {
        affinitySeconds: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds,
      }),
      internalLocal: spec.internalTrafficPolicy === 'Local',
      externalLocal: external && spec.externalTrafficPolicy === 'Local',
      ...(spec.healthCheckNodePort ? { healthCheckNodePort: spec.healthCheckNodePort } : {}),
      endpoints: endpointsOf(port, slices, nodeName),
    }),
  );
}

/** Ready endpoints; where none is ready, those that still serve while they terminate (KEP-1669). */
function endpointsOf(port: ServicePortSpec, slices: readonly EndpointSlice[], nodeName: string): ProxyEndpoint[] {
  const all: ProxyEndpoint[] = [];
  const seen = new Set<string>();
  for (const slice of slices) {
    if (slice.addressType === 'FQDN') continue;
    const target = slice.ports?.find(
      ({ name, protocol }) => (name ?? '') === (port.name ?? '') && (protocol ?? 'TCP') === (port.protocol ?? 'TCP'),
    );
    if (target?.port === undefined || target.port === null) continue;
    for (const { addresses, conditions, nodeName: on } of slice.endpoints ?? []) {
      const [ip] = addresses; // all addresses of an endpoint mean the same; the first one is used
      if (ip === undefined || seen.has(`${ip}:${target.port}`)) continue;
      seen.add(`${ip}:${target.port}`);
      const ready = conditions?.ready ?? true;
      all.push({
        ip,
        port: target.port,
        local: on === nodeName,
        ready,
        serving: conditions?.serving ?? ready,
        terminating: conditions?.terminating ?? false,
      });
    }
  }
  const ready = all.filter((endpoint) => endpoint.ready);
  const chosen = ready.length > 0 ? ready : all.filter(({ serving, terminating }) => serving && terminating);
  return chosen.sort((a, b) => (a.ip === b.ip ? a.port - b.port : a.ip < b.ip ? -1 : 1));
}
