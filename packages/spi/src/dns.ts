import { slot } from '@oarlock/kernel/slot';

/** One name of the Kubernetes DNS schema 1.1, without the cluster domain: `web.default.svc`. */
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

export interface DnsChanges {
  readonly replace: boolean;
  readonly set: readonly DnsRecord[];
  readonly removed: readonly string[];
}

/** Answers cluster names, forwards the rest. */
export interface DnsServer {
  /** Where it answers, once started: behind the Service that pods send their queries to. */
  readonly address: string;
  /** Over UDP and TCP; absent: 53. */
  readonly port?: number;
  readonly clusterDomain: string;
  apply(changes: DnsChanges): Promise<void>;
}

export const Dns = slot.one<DnsServer>('dns/v1');
