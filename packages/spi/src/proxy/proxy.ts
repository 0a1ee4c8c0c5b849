import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';

export interface ProxyEndpoint {
  readonly ip: string;
  readonly port: number;
  readonly local: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** True if only traffic policy `Local` uses this endpoint, because traffic policy `Cluster` uses other, ready or nearer endpoints. */
  readonly localOnly?: boolean;
}

/**
 * One port of one Service with its endpoints: the endpoints for traffic policy `Cluster` and, if a policy of the Service is `Local`, the endpoints of
 * this node. `key` is `namespace/name:port`.
 */
export interface ServicePort {
  readonly key: string;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** CIDRs that may reach the load balancer addresses. Empty: no restriction. */
  readonly loadBalancerSourceRanges: readonly string[];
  readonly nodePort?: number;
  /** Duration of session affinity in seconds; absent if the Service has no session affinity. */
  readonly affinitySeconds?: number;
  readonly internalLocal: boolean;
  readonly externalLocal: boolean;
  readonly healthCheckNodePort?: number;
  readonly endpoints: readonly ProxyEndpoint[];
}

/** The difference from the state that was applied before. The first call has `replace: true`: Services that are not in `set` are removed. */
export interface ProxyChanges {
  readonly replace: boolean;
  readonly set: readonly ServicePort[];
  readonly removed: readonly string[];
  readonly spanContext?: SpanContext | undefined;
}

/**
 * Routes the traffic of Services to their endpoints on this node.
 *
 * Guaranteed: `apply` is atomic, so a Service that is part of the state before and after drops no traffic; connections to
 * endpoints that remain are not cut; UDP flows to endpoints that were removed are. When `apply` resolves, new connections use the
 * new state. The caller makes one call at a time.
 */
export interface ServiceProxy {
  /** kube-proxy's name of this mode, for the node's `/proxyMode` endpoint: `nftables`. */
  readonly mode?: string;
  apply(changes: ProxyChanges): Promise<void>;
}

export const Proxy = slot.one<ServiceProxy>('proxy/v1');
