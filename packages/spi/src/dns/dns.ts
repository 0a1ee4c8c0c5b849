import type { Service } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';

/** A DNS record of the Kubernetes DNS specification 1.1. Names do not include the cluster domain: `web.default.svc`. */
export interface DnsRecord {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly srv?: readonly {
    readonly port: number;
    readonly target: string;
    readonly name: string;
    readonly protocol: 'tcp' | 'udp' | 'sctp';
  }[];
  readonly cname?: string;
}

/** The difference from the records that were applied before. With `replace`, all records that are not in `set` are removed. */
export interface DnsChanges {
  readonly replace: boolean;
  readonly set: readonly DnsRecord[];
  readonly removed: readonly string[];
}

/**
 * A DNS server of the cluster domain that forwards all other names.
 *
 * Guaranteed: when `apply` resolves, queries get the new records; no query gets a part of a change or is dropped because of it.
 */
export interface DnsServer {
  /** The address on which the started DNS server listens. It becomes the endpoint of the cluster's DNS Service. */
  readonly address: string;
  /** Port for UDP and TCP; 53 if absent. */
  readonly port?: number;
  readonly clusterDomain: string;
  /** Applies a difference. The caller makes one call at a time; the first has `replace: true`. */
  apply(changes: DnsChanges): Promise<void>;
}

export const Dns = slot.one<DnsServer>('dns/v1');

/** Namespace and name of the Service of the cluster DNS, which clients, policies and dashboards expect since kube-dns. */
export const clusterDnsName = { namespace: 'kube-system', name: 'kube-dns' } as const;

/** Returns the Service of the cluster DNS. Control planes create it; DNS servers add their endpoints. */
export const clusterDnsService = (clusterIP: string): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    ...clusterDnsName,
    labels: { 'k8s-app': 'kube-dns', 'kubernetes.io/cluster-service': 'true', 'kubernetes.io/name': 'CoreDNS' },
  },
  spec: {
    clusterIP,
    ports: [
      { name: 'dns', protocol: 'UDP', port: 53 },
      { name: 'dns-tcp', protocol: 'TCP', port: 53 },
    ],
  },
});
