import { isIPv6 } from 'node:net';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export type Family = 'ip' | 'ip6';
export const families: readonly Family[] = ['ip', 'ip6'];

/** Returns a predicate for addresses and CIDRs of the family. */
export const ofFamily = (family: Family) => (address: string) => isIPv6(address.split('/')[0] ?? '') === (family === 'ip6');

/** Returns the families of the CIDRs. */
export const familiesOf = (ranges: readonly string[]): readonly Family[] => families.filter((family) => ranges.some(ofFamily(family)));

/** An address and port that receives packets to a port of a Service. */
export interface ServiceFrontend {
  readonly kind: 'cluster' | 'external' | 'load-balancer' | 'node-port';
  /** Absent for a node port: any address of the node. */
  readonly address?: string;
  readonly port: number;
  /** False if the Service has no endpoints on any node: connections are rejected. */
  readonly hasEndpoints: boolean;
}

/** The rules of one port in one family, independent of the rule language. */
export interface PortRules {
  readonly port: ServicePort;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly frontends: readonly ServiceFrontend[];
  /** Endpoints of traffic policy Cluster. */
  readonly clusterEndpoints: readonly ProxyEndpoint[];
  /**
   * Endpoints of the cluster IPs, by internalTrafficPolicy. Empty although `hasEndpoints`: packets are dropped, since other nodes have
   * endpoints.
   */
  readonly internalEndpoints: readonly ProxyEndpoint[];
  /** Endpoints of all other frontends, by externalTrafficPolicy. Empty although `hasEndpoints`: packets are dropped. */
  readonly externalEndpoints: readonly ProxyEndpoint[];
  /** Every endpoint that any of the rules can select. */
  readonly reachableEndpoints: readonly ProxyEndpoint[];
  readonly affinitySeconds: number | undefined;
  /**
   * Traffic from pods and the node to external frontends is handled like traffic to the cluster IP: it uses all endpoints (KEP-2086, as
   * kube-proxy does).
   */
  readonly routesLocalTrafficToCluster: boolean;
  /** Traffic to external frontends is masqueraded: its endpoint may be on another node. */
  readonly masqueradesExternal: boolean;
  /** The sources that may use the load balancer addresses; undefined: all. */
  readonly loadBalancerSources: { readonly addresses: readonly string[]; readonly ranges: readonly string[] } | undefined;
}

/** Returns the rules of the port, or undefined if it has no frontend in the family. */
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
