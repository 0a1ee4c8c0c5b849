import { formatCIDR, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { ServicePort } from '@oarlock/spi/proxy';
import { categorizeEndpoints, type ProxyNode } from './categorize-endpoints.ts';

const defaultAffinitySeconds = 10_800; // default of ClientIP affinity, as in the API

const isAddress = (ip: string | undefined): ip is string => ip !== undefined && ip !== '' && ip !== 'None';

/** Labels that make kube-proxy ignore a Service, regardless of the label's value. */
const isManagedElsewhere = ['service.kubernetes.io/service-proxy-name', 'service.kubernetes.io/headless'] as const;

/**
 * Returns a source range in the form that packet rules require: without the white space that API validation permits and without leading
 * zeros, which stored objects may have.
 */
function canonicalRange(text: string): string {
  const range = parseCIDRSloppy(text.trim());
  return range === undefined ? text : formatCIDR(range);
}

/**
 * Returns the ports of one Service with the endpoints of each port. Empty for headless and ExternalName Services, and for Services that are
 * labeled for another proxy.
 */
export function servicePorts(service: Service, slices: readonly EndpointSlice[], node: ProxyNode): ServicePort[] {
  const { spec, metadata, status } = service;
  const clusterIPs = (spec?.clusterIPs ?? [spec?.clusterIP ?? '']).filter(isAddress);
  if (
    spec === undefined ||
    spec.type === 'ExternalName' ||
    clusterIPs.length === 0 ||
    isManagedElsewhere.some((label) => metadata?.labels?.[label] !== undefined)
  )
    return [];
  const external = spec.type === 'NodePort' || spec.type === 'LoadBalancer';
  const internalLocal = spec.internalTrafficPolicy === 'Local';
  const externalLocal = (external || (spec.externalIPs ?? []).length > 0) && spec.externalTrafficPolicy === 'Local';
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
      loadBalancerSourceRanges: (spec.loadBalancerSourceRanges ?? []).map(canonicalRange),
      ...(external && port.nodePort ? { nodePort: port.nodePort } : {}),
      ...(spec.sessionAffinity === 'ClientIP' && {
        affinitySeconds: spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds,
      }),
      internalLocal,
      externalLocal,
      ...(spec.healthCheckNodePort ? { healthCheckNodePort: spec.healthCheckNodePort } : {}),
      endpoints: categorizeEndpoints(port, { slices, node }, { local: internalLocal || externalLocal }),
    }),
  );
}
