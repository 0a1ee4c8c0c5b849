import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint } from '@oarlock/api/types/discovery-v1';

/**
 * The endpoint with what `trafficDistribution` of its Service makes of it: who is to be sent there first (KEP-2433, KEP-3015). Only ready endpoints are
 * recommended to anybody.
 */
export function withHints(endpoint: Endpoint, { spec }: Service): Endpoint {
  const { zone, nodeName, conditions } = endpoint;
  const near = spec?.trafficDistribution;
  if (conditions?.ready === false || !zone || (near !== 'PreferClose' && near !== 'PreferSameZone' && near !== 'PreferSameNode'))
    return endpoint;
  return {
    ...endpoint,
    hints: { forZones: [{ name: zone }], ...(near === 'PreferSameNode' && nodeName !== undefined && { forNodes: [{ name: nodeName }] }) },
  };
}
