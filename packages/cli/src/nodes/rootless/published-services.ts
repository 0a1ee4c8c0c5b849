import type { Service } from '@oarlock/api/types/core-v1';
import type { PublishedPort } from './host-relay.ts';
import { nodeAddress } from './node-address.ts';
import type { Target } from './relay/target.ts';

/** The maximum number of ports of Services that the host listens on. */
const maxPorts = 2000;

/** Returns the address of the host at which a load balancer's address is reached: 127.111.255.7 for 10.111.255.7. */
export const hostAddressOf = (loadBalancer: string): string => loadBalancer.replace(/^\d+/, '127');

/** Returns the ports of the host for node ports, at 127.0.0.1, and for addresses of load balancers. */
export function publishedPorts(services: readonly Service[]): readonly PublishedPort[] {
  return services.flatMap(portsOf).slice(0, maxPorts);
}

function portsOf({ spec, status }: Service): readonly PublishedPort[] {
  const addresses = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => (ip !== undefined && /^[\d.]+$/.test(ip) ? [ip] : []));
  return (spec?.ports ?? []).flatMap(({ port, nodePort, protocol = 'TCP' }) => {
    if (protocol !== 'TCP' && protocol !== 'UDP') return [];
    const to = (address: string, number: number): Target => ({ protocol: protocol === 'TCP' ? 'tcp' : 'udp', address, port: number });
    return [
      ...(nodePort === undefined || nodePort === 0 ? [] : [{ address: '127.0.0.1', port: nodePort, target: to(nodeAddress, nodePort) }]),
      ...addresses.map((address) => ({ address: hostAddressOf(address), port, target: to(address, port) })),
    ];
  });
}
