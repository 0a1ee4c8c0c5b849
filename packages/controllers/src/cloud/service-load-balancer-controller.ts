import { jsonEqual } from '@oarlock/api/json';
import { objectKey } from '@oarlock/api/object';
import { nodes as nodeResource, services as serviceResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { LoadBalancerStatus, Node, Service } from '@oarlock/api/types/core-v1';
import { optional } from '@oarlock/kernel/slot';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Cloud, type CloudLoadBalancers } from '@oarlock/spi/cloud';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { nameOf, typed } from '../pod-template.ts';

const finalizer = 'service.kubernetes.io/load-balancer-cleanup';
const excluded = 'node.kubernetes.io/exclude-from-external-load-balancers';
const toBeDeleted = 'ToBeDeletedByClusterAutoscaler';

/** Traffic may come to a pod by this node. */
function serves({ metadata, spec, status }: Node): boolean {
  if (metadata?.deletionTimestamp !== undefined || metadata?.labels?.[excluded] !== undefined) return false;
  if (spec?.taints?.some(({ key }) => key === toBeDeleted)) return false;
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

interface Parts {
  readonly services: Informer<Service>;
  readonly nodes: Informer<Node>;
  readonly balancers: CloudLoadBalancers;
  readonly recorder: EventRecorder;
}

/** Asks the cloud for a load balancer for each Service that wants one, and says where it answers. The finalizer keeps a Service until its load balancer is gone. */
export class ServiceLoadBalancerController implements Controller {
  readonly name = 'service-lb';
  readonly watches;
  readonly #parts: Parts;
  /** What was asked for last, by Service: the same is not asked for again. Lost with the process, and then asked for once more. */
  readonly #asked = new Map<string, { readonly what: string; readonly nodes: string }>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const { services, nodes } = parts;
    const balanced = () => services.list().flatMap((service) => (this.#isWanted(service) ? [objectKey(service)] : []));
    this.watches = [
      watch(services, (service) => (this.#isWanted(service) || isHeld(service) ? [objectKey(service)] : [])),
      watch(nodes, (node, old) => (old !== undefined && serves(node) === serves(old) ? [] : balanced())),
    ];
  }

  async reconcile(key: string, { client, signal }: ReconcileContext): Promise<void> {
    const service = this.#parts.services.get(key);
    if (service === undefined) this.#asked.delete(key);
    else if (service.metadata?.deletionTimestamp !== undefined || !this.#isWanted(service))
      await this.#remove(key, service, client, signal);
    else await this.#ensure(key, service, client, signal);
  }

  #isWanted({ spec }: Service): boolean {
    return (
      spec?.type === 'LoadBalancer' && (spec.loadBalancerClass === undefined || spec.loadBalancerClass === this.#parts.balancers.class)
    );
  }

  async #ensure(key: string, service: Service, client: Client, signal: AbortSignal): Promise<void> {
    const { balancers, recorder, nodes } = this.#parts;
    const able = nodes.list().filter(serves);
    const what = JSON.stringify([service.metadata?.uid, service.spec, service.metadata?.annotations]);
    const names = able
      .map(({ metadata }) => metadata?.name ?? '')
      .sort()
      .join();
    const before = this.#asked.get(key);
    const same = before?.what === what;
    if (same && before.nodes === names && service.status?.loadBalancer?.ingress !== undefined) return;
    let current = service;
    if (!same) recorder.event(service, 'Normal', 'EnsuringLoadBalancer', 'Ensuring load balancer');
    let status: LoadBalancerStatus;
    try {
      // before the load balancer: one that is made is never forgotten
      if (!isHeld(service))
        current = await client.update(serviceResource, {
          ...typed(serviceResource, service),
          metadata: { ...service.metadata, finalizers: [...(service.metadata?.finalizers ?? []), finalizer] },
        });
      status = await balancers.ensure(current, able, signal);
      if (!jsonEqual(current.status?.loadBalancer ?? {}, status)) await writeStatus(current, status, client);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return;
      if (!signal.aborted && !isStatus(error, 'Conflict')) {
        const because = error instanceof Error ? error.message : String(error);
        if (same)
          recorder.event(
            service,
            'Warning',
            'UpdateLoadBalancerFailed',
            `Error updating load balancer with new hosts [${names}]: ${because}`,
          );
        else
          recorder.event(
            service,
            'Warning',
            'SyncLoadBalancerFailed',
            `Error syncing load balancer: failed to ensure load balancer: ${because}`,
          );
      }
      throw error;
    }
    this.#asked.set(key, { what, nodes: names });
    if (same) recorder.event(service, 'Normal', 'UpdatedLoadBalancer', 'Updated load balancer with new hosts');
    else recorder.event(service, 'Normal', 'EnsuredLoadBalancer', 'Ensured load balancer');
  }

  async #remove(key: string, service: Service, client: Client, signal: AbortSignal): Promise<void> {
    const { balancers, recorder } = this.#parts;
    if (!isHeld(service)) return;
    recorder.event(service, 'Normal', 'DeletingLoadBalancer', 'Deleting load balancer');
    try {
      await balancers.remove(service, signal);
    } catch (error) {
      if (!signal.aborted)
        recorder.event(
          service,
          'Warning',
          'SyncLoadBalancerFailed',
          `Error syncing load balancer: failed to delete load balancer: ${error instanceof Error ? error.message : String(error)}`,
        );
      throw error;
    }
    this.#asked.delete(key);
    try {
      const emptied = service.status?.loadBalancer?.ingress === undefined ? service : await writeStatus(service, {}, client);
      await client.update(serviceResource, {
        ...typed(serviceResource, emptied),
        metadata: { ...emptied.metadata, finalizers: (emptied.metadata?.finalizers ?? []).filter((name) => name !== finalizer) },
      });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
    recorder.event(service, 'Normal', 'DeletedLoadBalancer', 'Deleted load balancer');
  }
}

const isHeld = ({ metadata }: Service): boolean => metadata?.finalizers?.includes(finalizer) ?? false;
const writeStatus = (service: Service, loadBalancer: LoadBalancerStatus, client: Client): Promise<Service> =>
  client.patch(
    serviceResource,
    nameOf(service),
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
      services: informers.of(serviceResource),
      nodes: informers.of(nodeResource),
      balancers,
      recorder: events.recorder('service-controller'),
    });
  },
});
