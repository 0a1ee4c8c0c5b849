import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort } from '@oarlock/api/types/discovery-v1';

export const serviceLabel = 'kubernetes.io/service-name';
export const managedBy = 'endpointslice.kubernetes.io/managed-by';
export const controllerName = 'endpointslice-controller.k8s.io';
const excludedLabels: ReadonlySet<string> = new Set([serviceLabel, managedBy, 'service.kubernetes.io/headless']);

/** Returns the labels for the EndpointSlices of a Service. */
export function sliceLabels(service: Service): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [key, value] of Object.entries(service.metadata?.labels ?? {})) if (!excludedLabels.has(key)) labels[key] = value;
  return {
    ...labels,
    [serviceLabel]: service.metadata?.name ?? '',
    [managedBy]: controllerName,
    ...(service.spec?.clusterIP === 'None' && { 'service.kubernetes.io/headless': '' }),
  };
}

const portText = (ports: readonly EndpointPort[]) =>
  JSON.stringify(ports.map(({ name, protocol, port, appProtocol }) => [name ?? '', protocol ?? 'TCP', port, appProtocol ?? '']).sort());
export const samePorts = (a: readonly EndpointPort[], b: readonly EndpointPort[]) => portText(a) === portText(b);
const endpointText = ({ addresses, conditions, nodeName, zone, hostname, targetRef, hints }: Endpoint) =>
  JSON.stringify([
    addresses,
    conditions?.ready,
    conditions?.serving,
    conditions?.terminating,
    nodeName,
    zone,
    hostname,
    targetRef?.uid,
    hints ?? null,
  ]);
export const sameEndpoints = (a: readonly Endpoint[], b: readonly Endpoint[]) =>
  a.length === b.length && a.every((endpoint, index) => b[index] !== undefined && endpointText(endpoint) === endpointText(b[index]));
export const sameLabels = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>) =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(b).every(([key, value]) => a[key] === value);
