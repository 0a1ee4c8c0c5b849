import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/** Returns true if the topology annotation of the Service, under its current or its deprecated name, enables hints. */
export function usesTopologyHints({ metadata }: Service): boolean {
  const { annotations = {} } = metadata ?? {};
  const mode = annotations['service.kubernetes.io/topology-aware-hints'] ?? annotations['service.kubernetes.io/topology-mode'];
  return mode === 'Auto' || mode === 'auto';
}

const prefersLocality: ReadonlySet<string> = new Set(['PreferClose', 'PreferSameZone', 'PreferSameNode']);

/** Returns the endpoint with hints for the Service's `trafficDistribution` (KEP-2433, KEP-3015). Endpoints that are not ready get no hints. */
export function withHints(endpoint: Endpoint, service: Service): Endpoint {
  const distribution = service.spec?.trafficDistribution;
  if (usesTopologyHints(service) || endpoint.conditions?.ready === false || distribution === undefined) return endpoint;
  const { zone, nodeName } = endpoint;
  const hints = {
    ...(zone && prefersLocality.has(distribution) && { forZones: [{ name: zone }] }),
    ...(nodeName && distribution === 'PreferSameNode' && { forNodes: [{ name: nodeName }] }),
  };
  return Object.keys(hints).length === 0 ? endpoint : { ...endpoint, hints };
}
