import { isIPv6 } from 'node:net';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export type Family = 'ip' | 'ip6';
export const families: readonly Family[] = ['ip', 'ip6'];

/** True for addresses and ranges of the family. */
export const ofFamily = (family: Family) => (address: string) => isIPv6(address.split('/')[0] ?? '') === (family === 'ip6');

/** The families that any of the ranges belongs to. */
export const familiesOf = (ranges: readonly string[]): readonly Family[] => families.filter((family) => ranges.some(ofFamily(family)));

/** Where packets to a port of a Service come in. */
export interface ServiceFrontend {
  readonly kind: 'cluster' | 'external' | 'load-balancer' | 'node-port';
  /** Absent at a node port: any address of the node. */
  readonly address?: string;
  readonly port: number;
  /** False: nobody serves the Service anywhere, and who comes is refused. */
  readonly hasEndpoints: boolean;
}

/** What the rules of one port say in one family, in whatever language they are written. */
export interface PortRules {
  readonly port: ServicePort;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly frontends: readonly ServiceFrontend[];
  /** Of the policy Cluster. */
  readonly clusterEndpoints: readonly ProxyEndpoint[];
  /** Of the cluster addresses, by the internal policy. Empty behind an open door: what comes is dropped, since others may serve it. */
  readonly internalEndpoints: readonly ProxyEndpoint[];
  /** Of all other doors, by the external policy. Empty behind an open door: as above. */
  readonly externalEndpoints: readonly ProxyEndpoint[];
  /** Every endpoint that any of the rules leads to. */
  readonly reachableEndpoints: readonly ProxyEndpoint[];
  readonly affinitySeconds: number | undefined;
  /** Pods and the node itself come to external doors as if they came to the cluster address: to all endpoints (KEP-2086's and upstream's short cut). */
  readonly routesLocalTrafficToCluster: boolean;
  /** What comes to external doors leaves with the node's address: its endpoint may be elsewhere. */
  readonly masqueradesExternal: boolean;
  /** Who may come to the addresses of load balancers; undefined: everybody. */
  readonly loadBalancerSources: { readonly addresses: readonly string[]; readonly ranges: readonly string[] } | undefined;
}

/** Undefined when the port has no door in the family. */
export function buildPortRules(port: ServicePort, family: Family): PortRules | undefined {
  const mine = ofFamily(family);
  const endpoints = port.endpoints.filter(({ ip }) => mine(ip));
  const all = endpoints.filter(({ localOnly }) => localOnly !== true);
  const local = endpoints.filter((endpoint) => endpoint.local);
  const open = endpoints.length > 0;
  const at = (kind: ServiceFrontend['kind'], addresses: readonly string[]) =>
    addresses.filter(mine).map((address): ServiceFrontend => ({ kind, address, port: port.port, hasEndpoints: open }));
  const outside = [...at('external', port.externalIPs), ...at('load-balancer', port.loadBalancerIPs)];
  const doors = [
    ...at('cluster', port.clusterIPs),
    ...outside,
    // of a Service that has addresses of the other family only, nobody comes here
    ...(port.nodePort !== undefined && port.clusterIPs.some(mine)
      ? [{ kind: 'node-port', port: port.nodePort, hasEndpoints: open } satisfies ServiceFrontend]
      : []),
  ];
  if (doors.length === 0) return undefined;
  const addresses = port.loadBalancerIPs.filter(mine);
  return {
    port,
    protocol: port.protocol.toLowerCase() as PortRules['protocol'],
    frontends: doors,
    clusterEndpoints: all,
    internalEndpoints: port.internalLocal ? local : all,
    externalEndpoints: port.externalLocal ? local : all,
    reachableEndpoints: endpoints,
    affinitySeconds: port.affinitySeconds,
    routesLocalTrafficToCluster: port.externalLocal,
    masqueradesExternal: !port.externalLocal,
    loadBalancerSources:
      port.loadBalancerSourceRanges.length > 0 && addresses.length > 0
        ? { addresses, ranges: port.loadBalancerSourceRanges.filter(mine) }
        : undefined,
  };
}

export const endpointName = ({ ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>): string =>
  isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
