import { jsonEqual } from '@oarlock/api/json/json';
import { objectKey } from '@oarlock/api/object';
import { nodes as nodeResource, services as serviceResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { LoadBalancerStatus, Node, Service } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudLoadBalancers } from '@oarlock/spi/cloud';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { errorText } from '@oarlock/primitives/error-text';
import { objectName, withTypeMeta } from '../objects/object-identity.ts';

const finalizer = 'service.kubernetes.io/load-balancer-cleanup';
const excludeLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';
const toBeDeleted = 'ToBeDeletedByClusterAutoscaler';

/** Returns true if load balancers may send traffic to this node. */
function isLoadBalancerNode({ metadata, spec, status }: Node): boolean {
  if (metadata?.deletionTimestamp !== undefined || metadata?.labels?.[excludeLabel] !== undefined) return false;
  if (spec?.taints?.some(({ key }) => key === toBeDeleted)) return false;
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

interface ServiceLoadBalancerControllerOptions {
  readonly services: Informer<Service>;
  readonly nodes: Informer<Node>;
  readonly balancers: CloudLoadBalancers;
  readonly recorder: EventRecorder;
}

/**
 * Ensures a cloud load balancer for each Service of type LoadBalancer, and writes the load balancer's ingress to the Service status. A
 * finalizer keeps the Service until the load balancer is deleted.
 */
export class ServiceLoadBalancerController implements Controller {
  readonly name = 'service-lb';
  readonly watches;
  readonly #options: ServiceLoadBalancerControllerOptions;
  /** Spec and nodes of the last `ensure` call for each Service, to skip equal calls. After a restart, each Service is ensured once more. */
  readonly #lastEnsured = new Map<string, { readonly spec: string; readonly nodes: string }>();

  constructor(options: ServiceLoadBalancerControllerOptions) {
    this.#options = options;
    const { services, nodes } = options;
    const balancedServices = () => services.list().flatMap((service) => (this.#needsLoadBalancer(service) ? [objectKey(service)] : []));
    this.watches = [
      watch(services, (service) => (this.#needsLoadBalancer(service) || hasFinalizer(service) ? [objectKey(service)] : [])),
      watch(nodes, (node, old) => (old !== undefined && isLoadBalancerNode(node) === isLoadBalancerNode(old) ? [] : balancedServices())),
    ];
  }

  async reconcile(key: string, { client, signal }: ReconcileContext): Promise<void> {
    const service = this.#options.services.get(key);
    if (service === undefined) this.#lastEnsured.delete(key);
    else if (service.metadata?.deletionTimestamp !== undefined || !this.#needsLoadBalancer(service))
      await this.#remove(key, { service, client, signal });
    else await this.#ensure(key, { service, client, signal });
  }

  #needsLoadBalancer({ spec }: Service): boolean {
    return (
      spec?.type === 'LoadBalancer' && (spec.loadBalancerClass === undefined || spec.loadBalancerClass === this.#options.balancers.class)
    );
  }

  async #ensure(
    key: string,
    { service, client, signal }: { readonly service: Service; readonly client: Client; readonly signal: AbortSignal },
  ): Promise<void> {
    const { balancers, recorder, nodes } = this.#options;
    const backendNodes = nodes.list().filter(isLoadBalancerNode);
    const spec = JSON.stringify([service.metadata?.uid, service.spec, service.metadata?.annotations]);
    const nodeNames = backendNodes
      .map(({ metadata }) => metadata?.name ?? '')
      .sort()
      .join();
    const before = this.#lastEnsured.get(key);
    const isSpecUnchanged = before?.spec === spec;
    if (isSpecUnchanged && before.nodes === nodeNames && service.status?.loadBalancer?.ingress !== undefined) return;
    let current = service;
    if (!isSpecUnchanged) recorder.event(service, 'Normal', 'EnsuringLoadBalancer', 'Ensuring load balancer');
    let status: LoadBalancerStatus;
    try {
      // the finalizer is added before the load balancer is created, so that none is leaked
      if (!hasFinalizer(service))
        current = await client.update(serviceResource, {
          ...withTypeMeta(serviceResource, service),
          metadata: { ...service.metadata, finalizers: [...(service.metadata?.finalizers ?? []), finalizer] },
        });
      status = await balancers.ensure(current, backendNodes, signal);
      if (!jsonEqual(current.status?.loadBalancer ?? {}, status)) await writeStatus(current, status, client);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return;
      if (!signal.aborted && !isStatus(error, 'Conflict')) {
        const message = errorText(error);
        if (isSpecUnchanged)
          recorder.event(
            service,
            'Warning',
            'UpdateLoadBalancerFailed',
            `Error updating load balancer with new hosts [${nodeNames}]: ${message}`,
          );
        else
          recorder.event(
            service,
            'Warning',
            'SyncLoadBalancerFailed',
            `Error syncing load balancer: failed to ensure load balancer: ${message}`,
          );
      }
      throw error;
    }
    this.#lastEnsured.set(key, { spec, nodes: nodeNames });
    if (isSpecUnchanged) recorder.event(service, 'Normal', 'UpdatedLoadBalancer', 'Updated load balancer with new hosts');
    else recorder.event(service, 'Normal', 'EnsuredLoadBalancer', 'Ensured load balancer');
  }

  async #remove(
    key: string,
    { service, client, signal }: { readonly service: Service; readonly client: Client; readonly signal: AbortSignal },
  ): Promise<void> {
    const { balancers, recorder } = this.#options;
    if (!hasFinalizer(service)) return;
    recorder.event(service, 'Normal', 'DeletingLoadBalancer', 'Deleting load balancer');
    try {
      await balancers.remove(service, signal);
    } catch (error) {
      if (!signal.aborted)
        recorder.event(
          service,
          'Warning',
          'SyncLoadBalancerFailed',
          `Error syncing load balancer: failed to delete load balancer: ${errorText(error)}`,
        );
      throw error;
    }
    this.#lastEnsured.delete(key);
    try {
      const withoutIngress = service.status?.loadBalancer?.ingress === undefined ? service : await writeStatus(service, {}, client);
      await client.update(serviceResource, {
        ...withTypeMeta(serviceResource, withoutIngress),
        metadata: {
          ...withoutIngress.metadata,
          finalizers: (withoutIngress.metadata?.finalizers ?? []).filter((name) => name !== finalizer),
        },
      });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    recorder.event(service, 'Normal', 'DeletedLoadBalancer', 'Deleted load balancer');
  }
}

const hasFinalizer = ({ metadata }: Service): boolean => metadata?.finalizers?.includes(finalizer) ?? false;
const writeStatus = (service: Service, loadBalancer: LoadBalancerStatus, client: Client): Promise<Service> =>
  client.patch(
    serviceResource,
    objectName(service),
    'merge',
    {
      metadata: { resourceVersion: service.metadata?.resourceVersion },
      status: { loadBalancer: { ingress: loadBalancer.ingress ?? null } },
    },
    { subresource: 'status' },
  );

export default Controllers.plugin({
  id: 'controller-service-lb',
  declares: { loop: 'service-lb' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, cloud: optional(Cloud) },
  create({ informers, events, cloud }) {
    const balancers = cloud?.loadBalancers;
    if (balancers === undefined) return { name: 'service-lb', watches: [], async reconcile() {} };
    return new ServiceLoadBalancerController({
      services: informers.forResource(serviceResource),
      nodes: informers.forResource(nodeResource),
      balancers,
      recorder: events.recorder('service-controller'),
    });
  },
});
