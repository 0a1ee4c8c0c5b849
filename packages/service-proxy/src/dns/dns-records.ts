import { isIP } from 'node:net';
import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { DnsRecord } from '@oarlock/spi/dns';

type Protocol = 'tcp' | 'udp' | 'sctp';
type Srv = NonNullable<DnsRecord['srv']>[number];

const protocolOf = (protocol: string | undefined) => (protocol ?? 'TCP').toLowerCase() as Protocol;

/**
 * Returns all DNS records of a Service by the Kubernetes DNS specification 1.1: the records of the Service, and those of the endpoints of a
 * headless Service.
 */
export function dnsRecords(service: Service, slices: readonly EndpointSlice[]): readonly DnsRecord[] {
  const name = `${service.metadata?.name}.${service.metadata?.namespace}.svc`;
  const { type, externalName, clusterIP, clusterIPs, ports = [] } = service.spec ?? {};
  if (type === 'ExternalName') {
    if (externalName === undefined || externalName === '') return [];
    return [isIP(externalName) === 0 ? { name, addresses: [], cname: externalName } : { name, addresses: [externalName] }];
  }
  if (clusterIP === 'None') return headless(name, slices);
  const addresses = clusterIPs ?? (clusterIP === undefined || clusterIP === '' ? [] : [clusterIP]);
  if (addresses.length === 0) return [];
  const srv = ports.flatMap(({ name: port, port: number, protocol }): Srv[] =>
    port === undefined || port === '' ? [] : [{ name: port, protocol: protocolOf(protocol), port: number, target: name }],
  );
  return [{ name, addresses, ...(srv.length > 0 && { srv }) }];
}

function headless(name: string, slices: readonly EndpointSlice[]): readonly DnsRecord[] {
  const endpoints = new Map<string, Set<string>>();
  const srv = new Map<string, Srv>();
  const all = new Set<string>();
  for (const { endpoints: listed = [], ports = [] } of slices) {
    for (const endpoint of listed ?? []) {
      if (endpoint.conditions?.ready === false) continue;
      for (const address of endpoint.addresses) {
        const host = `${hostOf(endpoint, address)}.${name}`;
        all.add(address);
        endpoints.set(host, (endpoints.get(host) ?? new Set()).add(address));
        for (const { name: port, port: number, protocol } of ports ?? []) {
          if (port === undefined || port === '' || number === undefined) continue;
          const entry = { name: port, protocol: protocolOf(protocol), port: number, target: host };
          srv.set(`${port} ${entry.protocol} ${number} ${host}`, entry);
        }
      }
    }
  }
  return [
    { name, addresses: [...all], ...(srv.size > 0 && { srv: [...srv.values()] }) },
    ...[...endpoints].map(([host, addresses]): DnsRecord => ({ name: host, addresses: [...addresses] })),
  ];
}

/** Returns the hostname of an endpoint. Without a hostname, returns the endpoint's address with dashes instead of dots or colons. */
function hostOf({ hostname }: Endpoint, address: string): string {
  return hostname === undefined || hostname === '' ? address.replaceAll(/[.:]/g, '-') : hostname;
}
