import type { LoadBalancerStatus, Node, NodeAddress, Service } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';

/** What a cloud knows of the machine behind a node. */
export interface CloudInstance {
  /** `<cloud>://<id>`. */
  readonly providerID: string;
  readonly addresses: readonly NodeAddress[];
  /** Labels of the node are made of these: `node.kubernetes.io/instance-type`, `topology.kubernetes.io/zone` and `topology.kubernetes.io/region`. */
  readonly instanceType?: string;
  readonly zone?: string;
  readonly region?: string;
  /** It exists and does not run: the node is tainted, its pods leave it. */
  readonly shutdown: boolean;
}

export interface CloudNodes {
  /** Undefined only when the cloud is sure that there is no such machine: then a node that is silent is deleted. */
  instance(node: Node, signal: AbortSignal): Promise<CloudInstance | undefined>;
}

/** How packets for a node's pods find the node. */
export interface CloudRoute {
  /** The cloud's own name for it. */
  readonly name: string;
  readonly nodeName: string;
  readonly destinationCIDR: string;
}
export interface CloudRoutes {
  list(signal: AbortSignal): Promise<readonly CloudRoute[]>;
  create(route: Omit<CloudRoute, 'name'>, signal: AbortSignal): Promise<void>;
  /** One that is gone already is no failure. */
  remove(route: CloudRoute, signal: AbortSignal): Promise<void>;
}

/** Every call may be repeated: after a crash it is not known whether the last one was made. */
export interface CloudLoadBalancers {
  /** The `loadBalancerClass` of Services that are for it besides those that name none. */
  readonly class?: string;
  /** Makes the Service's load balancer, or brings it up to date, with these nodes behind it. Says where it answers. */
  ensure(service: Service, nodes: readonly Node[], signal: AbortSignal): Promise<LoadBalancerStatus>;
  /** One that is not there is no failure. */
  remove(service: Service, signal: AbortSignal): Promise<void>;
}

/** What surrounds the cluster. Each part is optional: a loop whose part is absent has nothing to do. */
export interface CloudProvider {
  readonly name: string;
  readonly nodes?: CloudNodes;
  readonly routes?: CloudRoutes;
  readonly loadBalancers?: CloudLoadBalancers;
}

/** Why a cloud cannot do what is asked: what comes back by itself is tried again in any case. */
export type CloudErrorCode = 'NotAvailable' | 'Invalid' | 'Unreachable';
export class CloudError extends Error {
  override readonly name = 'CloudError';
  readonly code: CloudErrorCode;
  constructor(code: CloudErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export const Cloud = slot.one<CloudProvider>('cloud/v1');
