import { objectKey } from '@oarlock/api/object';
import { endpoints as endpointsResource, pods as podResource, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { EndpointAddress, EndpointPort, Endpoints, EndpointSubset, Pod, Service } from '@oarlock/api/types/core-v1';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { addressOf, shouldPodBeInEndpoints, endpointPorts, familiesOf } from '../endpoint-slice/pod-endpoint.ts';
import { ServiceSelectorIndex } from '../endpoint-slice/service-selector-index.ts';
import { TriggerTimeTracker, withTrigger } from '../endpoint-slice/trigger-time-tracker.ts';
import { isReady, isTerminating } from '../../pods/pod-state.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { withFailureEvent } from '../../errors/failure-event.ts';

const maxAddresses = 1000; // as upstream, which truncates the rest and sets an annotation
const overCapacityAnnotation = 'endpoints.kubernetes.io/over-capacity';
const managedByLabel = 'endpoints.kubernetes.io/managed-by';
interface EndpointsControllerOptions {
  readonly services: Informer<Service>;
  readonly pods: Informer<Pod>;
  readonly endpoints: Informer<Endpoints>;
  readonly recorder: EventRecorder;
}

/** Maintains the Endpoints of each Service for clients that do not read EndpointSlices yet. */
export class EndpointsController implements Controller {
  readonly name = 'endpoints';
  readonly watches;
  readonly #options: EndpointsControllerOptions;
  readonly #selectors: ServiceSelectorIndex;
  readonly #triggers = new TriggerTimeTracker();

  constructor(options: EndpointsControllerOptions) {
    this.#options = options;
    this.#selectors = new ServiceSelectorIndex(options.services, options.pods);
    this.watches = [
      watch(options.services, (service) => [objectKey(service)]),
      watch(options.pods, (pod, old) => this.#selectors.servicesOf(pod, old)),
      watch(options.endpoints, (endpoints) => [objectKey(endpoints)]),
    ];
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<void> {
    const service = this.#options.services.get(key);
    const existing = this.#options.endpoints.get(key);
    if (service === undefined) {
      this.#triggers.forget(key);
      // Endpoints without the label, such as leader election records, are managed by other clients
      if (existing?.metadata?.labels?.[managedByLabel] === undefined) return;
      try {
        await client.delete(
          endpointsResource,
          { namespace: existing.metadata.namespace ?? '', name: existing.metadata.name ?? '' },
          { preconditions: { uid: existing.metadata.uid ?? '' } },
        );
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
      return;
    }
    if (service.metadata?.deletionTimestamp !== undefined || Object.keys(service.spec?.selector ?? {}).length === 0) return;
    const pods = this.#selectors.podsOf(service);
    const { subsets, truncated } = this.#subsets(service, pods.filter(shouldPodBeInEndpoints));
    const trigger = this.#triggers.computeLastChangeTriggerTime(key, service, pods);
    const labels = {
      ...service.metadata?.labels,
      [managedByLabel]: 'endpoint-controller',
      ...(service.spec?.clusterIP === 'None' && { 'service.kubernetes.io/headless': '' }),
    };
    const annotations: Record<string, string> = { ...existing?.metadata?.annotations };
    if (truncated) annotations[overCapacityAnnotation] = 'truncated';
    else delete annotations[overCapacityAnnotation];
    const newAnnotations = withTrigger(annotations, trigger);
    const { annotations: _former, ...metadata } = existing?.metadata ?? {};
    const desired: Endpoints = {
      ...existing,
      apiVersion: 'v1',
      kind: 'Endpoints',
      subsets,
      metadata: {
        ...metadata,
        name: service.metadata?.name ?? '',
        namespace: service.metadata?.namespace ?? '',
        labels,
        ...(Object.keys(newAnnotations).length > 0 && { annotations: newAnnotations }),
      },
    };
    const withEvent = (reason: string, action: string, work: () => Promise<unknown>) =>
      withFailureEvent(this.#options.recorder, desired, { reason, message: `Failed to ${action} ${key}`, work });
    if (existing === undefined)
      await withEvent('FailedToCreateEndpoint', 'create endpoint for service', async () => {
        await client.create(endpointsResource, desired).catch((error: unknown) => {
          if (!isNamespaceTerminating(error)) throw error;
        });
      });
    else if (
      JSON.stringify([existing.subsets ?? [], sorted(existing.metadata?.labels), existing.metadata?.annotations ?? {}]) !==
      JSON.stringify([subsets, sorted(labels), annotations])
    )
      await withEvent('FailedToUpdateEndpoint', 'update endpoint', () => client.update(endpointsResource, desired));
  }

  #subsets(service: Service, pods: readonly Pod[]): { readonly subsets: readonly EndpointSubset[]; readonly truncated: boolean } {
    const [family = 'IPv4'] = familiesOf(service);
    const groups = new Map<
      string,
      { readonly ports: readonly EndpointPort[]; readonly ready: EndpointAddress[]; readonly notReady: EndpointAddress[] }
    >();
    let count = 0;
    let truncated = false;
    for (const pod of pods) {
      const ip = addressOf(pod, family);
      if (ip === undefined || (isTerminating(pod) && service.spec?.publishNotReadyAddresses !== true)) continue;
      if (++count > maxAddresses) {
        truncated = true;
        break;
      }
      const ports = endpointPorts(service, pod).map(
        ({ name, port, protocol, appProtocol }): EndpointPort => ({
          ...(name && { name }),
          port: port ?? 0,
          protocol: protocol ?? 'TCP',
          ...(appProtocol !== undefined && { appProtocol }),
        }),
      );
      if (ports.length === 0 && (service.spec?.ports?.length ?? 0) > 0) continue;
      const id = JSON.stringify(ports);
      const group = groups.get(id) ?? { ports, ready: [], notReady: [] };
      groups.set(id, group);
      const named = pod.spec?.hostname !== undefined && pod.spec.hostname !== '' && pod.spec.subdomain === service.metadata?.name;
      const address: EndpointAddress = {
        ip,
        ...(pod.spec?.nodeName !== undefined && { nodeName: pod.spec.nodeName }),
        ...(named && { hostname: pod.spec?.hostname ?? '' }),
        targetRef: { kind: 'Pod', namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '', uid: pod.metadata?.uid ?? '' },
      };
      (service.spec?.publishNotReadyAddresses === true || isReady(pod) ? group.ready : group.notReady).push(address);
    }
    const byIp = (a: EndpointAddress, b: EndpointAddress) => (a.ip < b.ip ? -1 : 1);
    const subsets = [...groups.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(
        ([, { ports, ready, notReady }]): EndpointSubset => ({
          ...(ready.length > 0 && { addresses: ready.sort(byIp) }),
          ...(notReady.length > 0 && { notReadyAddresses: notReady.sort(byIp) }),
          ...(ports.length > 0 && { ports }),
        }),
      );
    return { subsets, truncated };
  }
}

const sorted = (labels: Readonly<Record<string, string>> = {}) => Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));

export default Controllers.plugin({
  id: 'controller-endpoints',
  declares: { loop: 'endpoints' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }) =>
    new EndpointsController({
      services: informers.forResource(services),
      pods: informers.forResource(podResource),
      endpoints: informers.forResource(endpointsResource),
      recorder: events.recorder('endpoint-controller'),
    }),
});
