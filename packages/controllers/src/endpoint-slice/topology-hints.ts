import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/** Whether endpoints are to be shared out among zones: the annotation, under either of its names. */
export function isShared({ metadata }: Service): boolean {
  const { annotations = {} } = metadata ?? {};
  const mode = annotations['service.kubernetes.io/topology-aware-hints'] ?? annotations['service.kubernetes.io/topology-mode'];
  return mode === 'Auto' || mode === 'auto';
}

const isNear: ReadonlySet<string> = new Set(['PreferClose', 'PreferSameZone', 'PreferSameNode']);

/**
 * The endpoint with what `trafficDistribution` of its Service makes of it: who is to be sent there first (KEP-2433, KEP-3015). Only ready endpoints are
 * recommended to anybody.
 */
export function withHints(endpoint: Endpoint, service: Service): Endpoint {
  const near = service.spec?.trafficDistribution;
  if (isShared(service) || endpoint.conditions?.ready === false || near === undefined) return endpoint;
  const { zone, nodeName } = endpoint;
  const hints = {
    ...(zone && isNear.has(near) && { forZones: [{ name: zone }] }),
    ...(nodeName && near === 'PreferSameNode' && { forNodes: [{ name: nodeName }] }),
  };
  return Object.keys(hints).length === 0 ? endpoint : { ...endpoint, hints };
}
