import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/** Whether endpoints are to be shared out among zones: the annotation, under either of its names. */
export function isShared({ metadata }: Service): boolean {
  const { annotations = {} } = metadata ?? {};
  const mode = annotations['service.kubernetes.io/topology-aware-hints'] ?? annotations['service.kubernetes.io/topology-mode'];
  return mode === 'Auto' || mode === 'auto';
}

/**
 * The endpoint with what `trafficDistribution` of its Service makes of it: who is to be sent there first (KEP-2433, KEP-3015). Only ready endpoints are
 * recommended to anybody.
 */
export function withHints(endpoint: Endpoint, service: Service): Endpoint {
  const { spec } = service;
  if (isShared(service)) return endpoint;
  const { zone, nodeName, conditions } = endpoint;
  const near = spec?.trafficDistribution;
  if (conditions?.ready === false || !zone || (near !== 'PreferClose' && near !== 'PreferSameZone' && near !== 'PreferSameNode'))
    return endpoint;
  return {
    ...endpoint,
    hints: { forZones: [{ name: zone }], ...(near === 'PreferSameNode' && nodeName !== undefined && { forNodes: [{ name: nodeName }] }) },
  };
}
