import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';

export interface ProxyEndpoint {
  readonly ip: string;
  readonly port: number;
  readonly local: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** For traffic policies `Local` only: the policy `Cluster` has better ones, ready ones or some that are nearer. */
  readonly localOnly?: boolean;
}

/** One port of one Service with where its traffic goes: the endpoints of the policy `Cluster` and, where a policy is `Local`, those of this node. `key` is `namespace/name:port`. */
export interface ServicePort {
  readonly key: string;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** CIDRs that may reach the load balancer addresses; empty: all. */
  readonly loadBalancerSourceRanges: readonly string[];
  readonly nodePort?: number;
  /** Seconds that a client sticks to its endpoint; absent: no affinity. */
  readonly affinitySeconds?: number;
  readonly internalLocal: boolean;
  readonly externalLocal: boolean;
  readonly healthCheckNodePort?: number;
  readonly endpoints: readonly ProxyEndpoint[];
}

/** The difference to what was applied before. The first call has `replace: true`: whatever is not in it goes. */
export interface ProxyChanges {
  readonly replace: boolean;
  readonly set: readonly ServicePort[];
  readonly removed: readonly string[];
  readonly cause?: Cause | undefined;
}

/**
 * Brings the traffic of Services to their endpoints on this node. `apply` is called by one caller, one call at a time, and is atomic: at no
 * moment does a Service that is in both states drop traffic. Established connections to endpoints that stay are not cut; UDP flows
 * to endpoints that went are.
 */
export interface ServiceProxy {
  /** What kube-proxy calls this way of doing it, for those who ask a node's `/proxyMode`: `nftables`. */
  readonly mode?: string;
  apply(changes: ProxyChanges): Promise<void>;
}

export const Proxy = slot.one<ServiceProxy>('proxy/v1');
