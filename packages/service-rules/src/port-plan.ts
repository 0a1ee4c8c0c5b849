import { isIPv6 } from 'node:net';
import type { ProxyEndpoint, ServicePort } from '@oarlock/spi/proxy';

export type Family = 'ip' | 'ip6';
export const families: readonly Family[] = ['ip', 'ip6'];

/** True for addresses and ranges of the family. */
export const ofFamily = (family: Family) => (address: string) => isIPv6(address.split('/')[0] ?? '') === (family === 'ip6');

/** The families that any of the ranges belongs to. */
export const familiesOf = (ranges: readonly string[]): readonly Family[] => families.filter((family) => ranges.some(ofFamily(family)));

/** Where packets to a port of a Service come in. */
export interface Door {
  readonly kind: 'cluster' | 'external' | 'load-balancer' | 'node-port';
  /** Absent at a node port: any address of the node. */
  readonly address?: string;
  readonly port: number;
  /** False: nobody serves the Service anywhere, and who comes is refused. */
  readonly open: boolean;
}

/** What the rules of one port say in one family, in whatever language they are written. */
export interface PortPlan {
  readonly port: ServicePort;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  readonly doors: readonly Door[];
  /** Of the policy Cluster. */
  readonly all: readonly ProxyEndpoint[];
  /** Of the cluster addresses, by the internal policy. Empty behind an open door: what comes is dropped, since others may serve it. */
  readonly inner: readonly ProxyEndpoint[];
  /** Of all other doors, by the external policy. Empty behind an open door: as above. */
  readonly outer: readonly ProxyEndpoint[];
  /** Every endpoint that any of the rules leads to. */
  readonly endpoints: readonly ProxyEndpoint[];
  readonly affinitySeconds: number | undefined;
  /** Pods and the node itself come to external doors as if they came to the cluster address: to all endpoints (KEP-2086's and upstream's short cut). */
  readonly shortCut: boolean;
  /** What comes to external doors leaves with the node's address: its endpoint may be elsewhere. */
  readonly masqueradesOuter: boolean;
  /** Who may come to the addresses of load balancers; undefined: everybody. */
  readonly sources: { readonly addresses: readonly string[]; readonly ranges: readonly string[] } | undefined;
}

/** Undefined when the port has no door in the family. */
export function planOf(port: ServicePort, family: Family): PortPlan | undefined {
  const mine = ofFamily(family);
  const endpoints = port.endpoints.filter(({ ip }) => mine(ip));
  const all = endpoints.filter(({ localOnly }) => localOnly !== true);
  const local = endpoints.filter((endpoint) => endpoint.local);
  const open = endpoints.length > 0;
  const at = (kind: Door['kind'], addresses: readonly string[]) =>
    addresses.filter(mine).map((address): Door => ({ kind, address, port: port.port, open }));
  const outside = [...at('external', port.externalIPs), ...at('load-balancer', port.loadBalancerIPs)];
  const doors = [
    ...at('cluster', port.clusterIPs),
    ...outside,
    // of a Service that has addresses of the other family only, nobody comes here
    ...(port.nodePort !== undefined && port.clusterIPs.some(mine) ? [{ kind: 'node-port', port: port.nodePort, open } satisfies Door] : []),
  ];
  if (doors.length === 0) return undefined;
  const addresses = port.loadBalancerIPs.filter(mine);
  return {
    port,
    protocol: port.protocol.toLowerCase() as PortPlan['protocol'],
    doors,
    all,
    inner: port.internalLocal ? local : all,
    outer: port.externalLocal ? local : all,
    endpoints,
    affinitySeconds: port.affinitySeconds,
    shortCut: port.externalLocal,
    masqueradesOuter: !port.externalLocal,
    sources:
      port.loadBalancerSourceRanges.length > 0 && addresses.length > 0
        ? { addresses, ranges: port.loadBalancerSourceRanges.filter(mine) }
        : undefined,
  };
}

export const endpointName = ({ ip, port }: Pick<ProxyEndpoint, 'ip' | 'port'>): string =>
  isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
