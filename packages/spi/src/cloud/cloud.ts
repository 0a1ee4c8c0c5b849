import type { LoadBalancerStatus, Node, NodeAddress, Service } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';

/** The machine behind a node, as the cloud reports it. */
export interface CloudInstance {
  /** Provider ID in the form `<cloud>://<id>`. */
  readonly providerID: string;
  readonly addresses: readonly NodeAddress[];
  /**
   * Instance type, zone and region: the values of the node labels `node.kubernetes.io/instance-type`, `topology.kubernetes.io/zone` and
   * `topology.kubernetes.io/region`.
   */
  readonly instanceType?: string;
  readonly zone?: string;
  readonly region?: string;
  /** True if the machine exists but is shut down. The node then gets the taint `node.cloudprovider.kubernetes.io/shutdown`. */
  readonly shutdown: boolean;
}

/** Instances of the cloud (InstancesV2 upstream). */
export interface CloudNodes {
  /**
   * Returns the cloud instance of a node, or undefined only if the instance certainly does not exist: a NotReady node without an instance is deleted.
   * @throws CloudError if the call fails for any other reason
   */
  instance(node: Node, signal: AbortSignal): Promise<CloudInstance | undefined>;
}

/** A route for the pod range of a node. */
export interface CloudRoute {
  /** Name of the route, which the cloud assigns. */
  readonly name: string;
  readonly nodeName: string;
  readonly destinationCIDR: string;
}
/** Routes of the cloud (Routes upstream). */
export interface CloudRoutes {
  list(signal: AbortSignal): Promise<readonly CloudRoute[]>;
  create(route: Omit<CloudRoute, 'name'>, signal: AbortSignal): Promise<void>;
  /** Deletes a route. Succeeds if the route does not exist. */
  remove(route: CloudRoute, signal: AbortSignal): Promise<void>;
}

/**
 * Load balancers of the cloud (LoadBalancer upstream).
 *
 * Every call is idempotent: after a crash the controller does not know whether the last call took effect and repeats it.
 */
export interface CloudLoadBalancers {
  /** The `loadBalancerClass` of the Services that this implementation serves, in addition to Services without a class. */
  readonly class?: string;
  /**
   * Creates or updates the load balancer of a Service with these nodes as targets. Returns the addresses of the load balancer, which must not change
   * afterwards.
   */
  ensure(service: Service, nodes: readonly Node[], signal: AbortSignal): Promise<LoadBalancerStatus>;
  /** Deletes the load balancer of a Service. Succeeds if the load balancer does not exist. */
  remove(service: Service, signal: AbortSignal): Promise<void>;
}

/**
 * A cloud provider (`cloudprovider.Interface` upstream). Each part is optional: the controllers of an absent part do nothing.
 *
 * All methods throw `CloudError`. The controllers retry with backoff after every error.
 */
export interface CloudProvider {
  readonly name: string;
  readonly nodes?: CloudNodes;
  readonly routes?: CloudRoutes;
  readonly loadBalancers?: CloudLoadBalancers;
}

/** The reason why a cloud call failed, for messages and metrics. The controllers retry every failure. */
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
