import { slot } from '@oarlock/kernel/slot';

/** A record of the Kubernetes DNS schema 1.1. Names have no cluster domain: `web.default.svc`. */
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

/** The difference to the records applied before. With `replace`, all records that are not in `set` are removed. */
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
  /** The address at which it listens once started. It is the endpoint of the cluster's DNS Service. */
  readonly address: string;
  /** Port for UDP and TCP. Default 53. */
  readonly port?: number;
  readonly clusterDomain: string;
  /** Applies a difference. The caller makes one call at a time; the first has `replace: true`. */
  apply(changes: DnsChanges): Promise<void>;
}

export const Dns = slot.one<DnsServer>('dns/v1');
