import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { isIPv6 } from 'node:net';
import { intValue } from '@oarlock/api/values/int-or-string';
import type { Pod, Service, ServicePort } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort } from '@oarlock/api/types/discovery-v1';
import { isReady, isTerminal, isTerminating } from '../../pods/pod-state.ts';

export type IPFamily = 'IPv4' | 'IPv6';
export const familyOf = (ip: string): IPFamily => (isIPv6(ip) ? 'IPv6' : 'IPv4');

/** Returns the IP families of a Service: `spec.ipFamilies`, or else the families of its cluster IPs. */
export function familiesOf(service: Service): readonly IPFamily[] {
  const specFamilies = service.spec?.ipFamilies?.filter((family): family is IPFamily => family === 'IPv4' || family === 'IPv6');
  if (specFamilies !== undefined && specFamilies.length > 0) return specFamilies;
  const ips = (service.spec?.clusterIPs ?? []).filter((ip) => ip !== 'None' && ip !== '');
  return ips.length > 0 ? [...new Set(ips.map(familyOf))] : ['IPv4'];
}

/** Returns true if the pod has an IP address and is not terminal. */
export const shouldPodBeInEndpoints = (pod: Pod): boolean =>
  (pod.status?.podIPs?.length ?? 0) + (pod.status?.podIP ? 1 : 0) > 0 && !isTerminal(pod);

export function addressOf(pod: Pod, family: IPFamily): string | undefined {
  const ips = pod.status?.podIPs?.map(({ ip }) => ip) ?? (pod.status?.podIP ? [pod.status.podIP] : []);
  return ips.find((ip) => familyOf(ip) === family);
}

/**
 * Returns the target port number of a Service port for one pod, or undefined if the pod lacks the named port. A named port is looked up in the
 * pod's containers, so the number may differ between pods of one Service.
 */
export function targetPort(port: ServicePort, pod: Pod): number | undefined {
  const target = port.targetPort ?? port.port;
  if (typeof target === 'number' || target === '') return intValue(target === '' ? port.port : target) || port.port;
  const sidecars = (pod.spec?.initContainers ?? []).filter(isRestartableInitContainer);
  for (const container of [...(pod.spec?.containers ?? []), ...sidecars]) {
    const found = container.ports?.find(({ name, protocol }) => name === target && (protocol ?? 'TCP') === (port.protocol ?? 'TCP'));
    if (found !== undefined) return found.containerPort;
  }
  return undefined;
}

/** Returns the endpoint ports of a Service for one pod, without named ports that the pod does not have. */
export function endpointPorts(service: Service, pod: Pod): readonly EndpointPort[] {
  return (service.spec?.ports ?? []).flatMap((port): EndpointPort[] => {
    const number = targetPort(port, pod);
    return number === undefined
      ? []
      : [
          {
            name: port.name ?? '',
            protocol: port.protocol ?? 'TCP',
            port: number,
            ...(port.appProtocol !== undefined && { appProtocol: port.appProtocol }),
          },
        ];
  });
}

/** The address of the pod, the Service and the zone of the node. */
export interface EndpointOptions {
  readonly address: string;
  readonly service: Service;
  readonly zone: string | undefined;
}

export function toEndpoint(pod: Pod, { address, service, zone }: EndpointOptions): Endpoint {
  const ready = isReady(pod);
  const terminating = isTerminating(pod);
  const named = pod.spec?.hostname !== undefined && pod.spec.hostname !== '' && pod.spec.subdomain === service.metadata?.name;
  return {
    addresses: [address],
    conditions: { ready: service.spec?.publishNotReadyAddresses === true || (ready && !terminating), serving: ready, terminating },
    targetRef: { kind: 'Pod', namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '', uid: pod.metadata?.uid ?? '' },
    ...(pod.spec?.nodeName !== undefined && { nodeName: pod.spec.nodeName }),
    ...(zone && { zone }),
    ...(named && { hostname: pod.spec?.hostname ?? '' }),
  };
}
