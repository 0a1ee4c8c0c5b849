import { objectKey } from '@oarlock/api/object';
import { endpointSlices, nodes, pods as podResource, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, Pod, Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ControllerExpectations } from '../../expectations/controller-expectations.ts';
import { podsByNodeIndex, podNodeKeys } from '../../indexes/pods-by-node.ts';
import { shouldPodBeInEndpoints, addressOf, endpointPorts, familiesOf, toEndpoint, type IPFamily } from './pod-endpoint.ts';
import { ServiceSelectorIndex } from './service-selector-index.ts';
import { managedBy, controllerName, serviceLabel } from './slice-comparison.ts';
import { planSlices, type EndpointGroup } from './slice-plan.ts';
import { usesTopologyHints, withHints } from './traffic-distribution.ts';
import { TriggerTimeTracker, withTrigger } from './trigger-time-tracker.ts';
import { allocateHints, topologyText, TopologyHintsFailure, zoneCpuRatios, type ZoneCpuRatios } from './topology-cache.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { withErrorPrefix } from '../../errors/with-error-prefix.ts';
import { withFailureEvent } from '../../errors/failure-event.ts';

const byService = 'slices-of-service';
const topologyServicesIndex = 'services-shared-out';
const serviceOf = (slice: EndpointSlice) =>
  slice.metadata?.labels?.[managedBy] === controllerName
    ? [`${slice.metadata.namespace}/${slice.metadata.labels[serviceLabel] ?? ''}`]
    : [];

interface EndpointSliceControllerOptions {
  readonly services: Informer<Service>;
  readonly pods: Informer<Pod>;
  readonly slices: Informer<EndpointSlice>;
  readonly nodes: Informer<Node>;
  readonly recorder: EventRecorder;
  readonly maxEndpoints: number;
  readonly clock: Clock;
}
/** Publishes the addresses of the pods of each Service in EndpointSlices of limited size. */
export class EndpointSliceController implements Controller {
  readonly name = 'endpointslice';
  readonly watches;
  readonly #options: EndpointSliceControllerOptions;
  readonly #selectors: ServiceSelectorIndex;
  readonly #triggers = new TriggerTimeTracker();
  readonly #expectations: ControllerExpectations;
  /** The share of CPU of each zone, computed on demand and reset when nodes change. */
  #zoneCpuRatios: { readonly of: ZoneCpuRatios } | undefined;
  /** The Services that have topology hints. */
  readonly #hinted = new Set<string>();

  constructor(options: EndpointSliceControllerOptions) {
    this.#options = options;
    this.#expectations = new ControllerExpectations(options.clock);
    this.#selectors = new ServiceSelectorIndex(options.services, options.pods);
    options.slices.addIndexer(byService, serviceOf);
    options.pods.addIndexer(podsByNodeIndex, podNodeKeys);
    options.services.addIndexer(topologyServicesIndex, (service) => (usesTopologyHints(service) ? ['all'] : []));
    this.watches = [
      watch(options.services, (service) => [objectKey(service)]),
      watch(options.pods, (pod, old) => (old === undefined || isEndpointChange(pod, old) ? this.#selectors.servicesOf(pod, old) : [])),
      watch(options.slices, serviceOf),
      // endpoints contain the zone of their node
      watch(options.nodes, (node, old) =>
        old !== undefined && zoneOf(node) === zoneOf(old)
          ? []
          : options.pods
              .byIndex(podsByNodeIndex, node.metadata?.name ?? '')
              .flatMap((pod) => [...this.#selectors.servicesOf(pod, undefined)]),
      ),
      watch(options.nodes, (node, old) => {
        if (old !== undefined && node !== old && topologyText(node) === topologyText(old)) return [];
        this.#zoneCpuRatios = undefined;
        return options.services.byIndex(topologyServicesIndex, 'all').map(objectKey);
      }),
    ];
    options.slices.addEventHandler({
      onAdd: (slice) => {
        for (const key of serviceOf(slice)) this.#expectations.creationObserved(key);
      },
      onDelete: (slice) => {
        for (const key of serviceOf(slice)) this.#expectations.deletionObserved(key, slice.metadata?.uid ?? '');
      },
    });
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<void> {
    const service = this.#options.services.get(key);
    const existing = this.#options.slices.byIndex(byService, key).filter((slice) => slice.metadata?.deletionTimestamp === undefined);
    // the garbage collector deletes the slices of a deleted Service
    if (service === undefined) {
      this.#expectations.deleteExpectations(key);
      this.#hinted.delete(key);
      this.#triggers.forget(key);
      return;
    }
    // previous creations and deletions are not in the cache yet; their events trigger a reconcile
    if (!this.#expectations.satisfied(key)) return;
    // slices of Services without a selector are managed by other clients
    if (service.spec?.type === 'ExternalName' || Object.keys(service.spec?.selector ?? {}).length === 0) return;
    const message = `Error updating Endpoint Slices for Service ${key}`;
    await withFailureEvent(this.#options.recorder, service, {
      reason: 'FailedToUpdateEndpointSlices',
      message,
      work: () => this.#reconcileService(key, { service, existing, client }),
    });
  }

  async #reconcileService(
    key: string,
    { service, existing, client }: { readonly service: Service; readonly existing: readonly EndpointSlice[]; readonly client: Client },
  ): Promise<void> {
    const pods = this.#selectors.podsOf(service);
    const { groups, errors } = this.#groups(service, pods.filter(shouldPodBeInEndpoints));
    const trigger = this.#triggers.computeLastChangeTriggerTime(key, service, pods);
    const { maxEndpoints } = this.#options;
    const plan = planSlices(service, { families: familiesOf(service), groups }, { existing, maxEndpoints });
    // the garbage collector may delete the slices of a Service that ends, for example after the cleanup of its load balancer, while they are replaced
    if (service.metadata?.deletionTimestamp === undefined)
      for (const slice of plan.create)
        await withErrorPrefix(`failed to create EndpointSlice for Service ${key}`, () =>
          this.#createSlice(slice, { key, trigger, client }),
        );
    const nameOf = ({ metadata }: EndpointSlice) => `${metadata?.name} EndpointSlice for Service ${key}`;
    for (const slice of plan.update)
      await withErrorPrefix(`failed to update ${nameOf(slice)}`, () => client.update(endpointSlices, withTriggerTime(slice, trigger)));
    for (const slice of plan.remove)
      await withErrorPrefix(`failed to delete ${nameOf(slice)}`, () => this.#deleteSlice(key, slice, client));
    if (errors.length > 0) throw new Error(errors.length === 1 ? errors[0] : `[${errors.join(', ')}]`);
  }

  /** Returns the endpoints of the pods in groups, and upstream's error for each pod whose node does not exist; such pods get no endpoints. */
  #groups(service: Service, pods: readonly Pod[]): { readonly groups: readonly EndpointGroup[]; readonly errors: readonly string[] } {
    const groups = new Map<
      string,
      { readonly family: IPFamily; readonly ports: readonly EndpointPort[]; endpoints: Map<string, Endpoint> }
    >();
    const errors: string[] = [];
    const families = familiesOf(service);
    for (const pod of pods) {
      const nodeName = pod.spec?.nodeName ?? '';
      const node = this.#options.nodes.get(nodeName);
      // publishNotReadyAddresses requires every address
      if (node === undefined && service.spec?.publishNotReadyAddresses !== true) {
        errors.push(`skipping Pod ${pod.metadata?.name} for Service ${objectKey(service)}: Node ${nodeName} Not Found`);
        continue;
      }
      const ports = endpointPorts(service, pod);
      for (const family of families) {
        const address = addressOf(pod, family);
        if (address === undefined) continue;
        const id = `${family} ${JSON.stringify(ports)}`;
        const group = groups.get(id) ?? { family, ports, endpoints: new Map<string, Endpoint>() };
        group.endpoints.set(
          pod.metadata?.uid ?? address,
          withHints(toEndpoint(pod, { address, service, zone: node && zoneOf(node) }), service),
        );
        groups.set(id, group);
      }
    }
    for (const family of families)
      this.#addTopologyHints(
        service,
        family,
        [...groups.values()].filter((group) => group.family === family),
      );
    return { groups: [...groups.values()], errors };
  }

  /** Adds hints by the CPU of zones to the endpoints of a family, of all ports together, and records upstream's Events. */
  #addTopologyHints(service: Service, family: IPFamily, groups: readonly { readonly endpoints: Map<string, Endpoint> }[]): void {
    const key = objectKey(service);
    const event = (type: 'Normal' | 'Warning', reason: string, message: string) =>
      this.#options.recorder.event(service, type, reason, `${message}, addressType: ${family}`);
    if (!usesTopologyHints(service)) {
      if (this.#hinted.delete(key)) event('Warning', 'TopologyAwareHintsDisabled', 'Topology Aware Hints has been disabled');
      return;
    }
    this.#zoneCpuRatios ??= { of: zoneCpuRatios(this.#options.nodes.list()) };
    const zones = allocateHints(
      groups.flatMap(({ endpoints }) => [...endpoints.values()]),
      this.#zoneCpuRatios.of,
    );
    if (zones instanceof TopologyHintsFailure) {
      this.#hinted.delete(key);
      event('Warning', 'TopologyAwareHintsDisabled', zones.message);
      return;
    }
    for (const { endpoints } of groups)
      for (const [id, endpoint] of endpoints) {
        const zone = zones.get(endpoint);
        if (zone !== undefined) endpoints.set(id, { ...endpoint, hints: { forZones: [{ name: zone }] } });
      }
    if (this.#hinted.has(key)) return;
    this.#hinted.add(key);
    event('Normal', 'TopologyAwareHintsEnabled', 'Topology Aware Hints has been enabled');
  }

  async #createSlice(
    slice: EndpointSlice,
    { key, trigger, client }: { readonly key: string; readonly trigger: string | undefined; readonly client: Client },
  ): Promise<void> {
    this.#expectations.expectCreations(key, 1);
    try {
      await client.create(endpointSlices, trigger === undefined ? slice : withTriggerTime(slice, trigger));
    } catch (error) {
      this.#expectations.creationFailed(key);
      if (!isNamespaceTerminating(error)) throw error;
    }
  }

  async #deleteSlice(key: string, slice: EndpointSlice, client: Client): Promise<void> {
    const uid = slice.metadata?.uid ?? '';
    this.#expectations.expectDeletion(key, uid);
    try {
      await client.delete(
        endpointSlices,
        { namespace: slice.metadata?.namespace ?? '', name: slice.metadata?.name ?? '' },
        { preconditions: { uid } },
      );
    } catch (error) {
      this.#expectations.deletionObserved(key, uid);
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}

const withTriggerTime = (slice: EndpointSlice, trigger: string | undefined): EndpointSlice => ({
  ...slice,
  metadata: { ...slice.metadata, annotations: withTrigger(slice.metadata?.annotations, trigger) },
});

const zoneOf = ({ metadata }: Node) => metadata?.labels?.['topology.kubernetes.io/zone'];

/** Returns true if this change of a pod may affect the pod's endpoints. */
function isEndpointChange(pod: Pod, old: Pod): boolean {
  return (
    pod.status?.podIP !== old.status?.podIP ||
    pod.status?.podIPs !== old.status?.podIPs ||
    pod.status?.phase !== old.status?.phase ||
    pod.spec?.nodeName !== old.spec?.nodeName ||
    pod.metadata?.deletionTimestamp !== old.metadata?.deletionTimestamp ||
    pod.metadata?.labels !== old.metadata?.labels ||
    pod.status?.conditions !== old.status?.conditions
  );
}

export default Controllers.plugin({
  id: 'controller-endpoint-slice',
  declares: { loop: 'endpointslice' },
  config: z.strictObject({ maxEndpointsPerSlice: z.number().int().min(1).max(1000).default(100) }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new EndpointSliceController({
      services: informers.forResource(services),
      pods: informers.forResource(podResource),
      slices: informers.forResource(endpointSlices),
      nodes: informers.forResource(nodes),
      maxEndpoints: config.maxEndpointsPerSlice,
      recorder: events.recorder('endpoint-slice-controller'),
      clock,
    }),
});
