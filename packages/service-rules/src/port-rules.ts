import { isIPv6 } from 'node:net';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export type Family = 'ip' | 'ip6';
export const families: readonly Family[] = ['ip', 'ip6'];

/** Returns a predicate that is true for addresses and CIDRs of the IP family. */
export const ofFamily = (family: Family) => (address: string) => isIPv6(address.split('/')[0] ?? '') === (family === 'ip6');

/** Returns the IP families that occur in the CIDRs. */
export const familiesOf = (ranges: readonly string[]): readonly Family[] => families.filter((family) => ranges.some(ofFamily(family)));

/** An address and port that receives packets to a port of a Service. */
export interface ServiceFrontend {
  readonly kind: 'cluster' | 'external' | 'load-balancer' | 'node-port';
  /** The address; absent for a node port, which is open on any address of the node. */
  readonly address?: string;
  readonly port: number;
  /** False if the Service has no endpoints on any node: connections to the frontend are rejected. */
  readonly hasEndpoints: boolean;
}

/** The rules of one Service port in one IP family, independent of the rule language. */
export interface PortRules {
  readonly port: ServicePort;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly frontends: readonly ServiceFrontend[];
  /** Endpoints of traffic policy Cluster. */
  readonly clusterEndpoints: readonly ProxyEndpoint[];
  /**
   * Endpoints of the cluster IPs by internalTrafficPolicy. If empty while `hasEndpoints` is true, packets are dropped, because only other nodes
   * have endpoints.
   */
  readonly internalEndpoints: readonly ProxyEndpoint[];
  /** Endpoints of all other frontends by externalTrafficPolicy. If empty while `hasEndpoints` is true, packets are dropped. */
  readonly externalEndpoints: readonly ProxyEndpoint[];
  /** Every endpoint that a rule of the port can select. */
  readonly reachableEndpoints: readonly ProxyEndpoint[];
  readonly affinitySeconds: number | undefined;
  /**
   * True if traffic from pods and from the node to external frontends uses all endpoints, like traffic to the cluster IP (KEP-2086, as
   * kube-proxy does).
   */
  readonly routesLocalTrafficToCluster: boolean;
  /** True if traffic to external frontends is masqueraded, because the endpoint may be on another node. */
  readonly masqueradesExternal: boolean;
  /** The source ranges that may use the load balancer addresses; undefined if all sources may. */
  readonly loadBalancerSources: { readonly addresses: readonly string[]; readonly ranges: readonly string[] } | undefined;
}

/** Returns the rules of a Service port in one IP family, or undefined if the port has no frontend in that family. */
export function buildPortRules(port: ServicePort, family: Family): PortRules | undefined {
  const isOfFamily = ofFamily(family);
  const endpoints = port.endpoints.filter(({ ip }) => isOfFamily(ip));
  const all = endpoints.filter(({ localOnly }) => localOnly !== true);
  const local = endpoints.filter((endpoint) => endpoint.local);
  const open = endpoints.length > 0;
  const at = (kind: ServiceFrontend['kind'], addresses: readonly string[]) =>
    addresses.filter(isOfFamily).map((address): ServiceFrontend => ({ kind, address, port: port.port, hasEndpoints: open }));
  const outside = [...at('external', port.externalIPs), ...at('load-balancer', port.loadBalancerIPs)];
  const frontends = [
    ...at('cluster', port.clusterIPs),
    ...outside,
    // a node port accepts only the families of the cluster IPs
    ...(port.nodePort !== undefined && port.clusterIPs.some(isOfFamily)
      ? [{ kind: 'node-port', port: port.nodePort, hasEndpoints: open } satisfies ServiceFrontend]
      : []),
  ];
  if (frontends.length === 0) return undefined;
  const addresses = port.loadBalancerIPs.filter(isOfFamily);
  return {
    port,
    protocol: port.protocol.toLowerCase() as PortRules['protocol'],
    frontends,
    clusterEndpoints: all,
    internalEndpoints: port.internalLocal ? local : all,
    externalEndpoints: port.externalLocal ? local : all,
    reachableEndpoints: endpoints,
    affinitySeconds: port.affinitySeconds,
    routesLocalTrafficToCluster: port.externalLocal,
    masqueradesExternal: !port.externalLocal,
    loadBalancerSources:
      port.loadBalancerSourceRanges.length > 0 && addresses.length > 0
        ? { addresses, ranges: port.loadBalancerSourceRanges.filter(isOfFamily) }
        : undefined,
  };
}

export const endpointName = ({ ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>): string =>
  isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
