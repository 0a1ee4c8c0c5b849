import { controllerRef, objectKey } from '@oarlock/api/object';
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
import { managedBy, controllerName, sameEndpoints, sameLabels, samePorts, serviceLabel, sliceLabels } from './slice-comparison.ts';
import { usesTopologyHints, withHints } from './traffic-distribution.ts';
import { TriggerTimeTracker, withTrigger } from './trigger-time-tracker.ts';
import { allocateHints, topologyText, zoneCpuRatios, type TopologyHintsFailure, type ZoneCpuRatios } from './topology-cache.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
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
/** State of one Service reconcile. */
interface ServiceSync {
  readonly key: string;
  readonly service: Service;
  /** The value of the annotation last-change-trigger-time for EndpointSlices that this reconcile changes. */
  readonly trigger: string | undefined;
  readonly client: Client;
}
/** Endpoints with the same ports and address family, which share EndpointSlices. */
interface EndpointGroup {
  readonly family: IPFamily;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: Map<string, Endpoint>;
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
  /** The reason why a Service gets no topology hints, by Service key. Each change of the reason is reported by one event. */
  readonly #hintFailures = new Map<string, string>();

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
    if (service === undefined || service.metadata?.deletionTimestamp !== undefined) {
      this.#expectations.deleteExpectations(key);
      this.#hintFailures.delete(key);
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
    const groups = this.#groups(service, pods.filter(shouldPodBeInEndpoints));
    const trigger = this.#triggers.computeLastChangeTriggerTime(key, service, pods);
    const unused = new Set(existing);
    for (const group of groups.values()) {
      const groupSlices = existing.filter((slice) => slice.addressType === group.family && samePorts(slice.ports ?? [], group.ports));
      for (const slice of groupSlices) unused.delete(slice);
      await this.#reconcileByPortMapping({ key, service, trigger, client }, group, groupSlices);
    }
    for (const slice of unused) await this.#deleteSlice(key, slice, client);
  }

  #groups(service: Service, pods: readonly Pod[]): ReadonlyMap<string, EndpointGroup> {
    const groups = new Map<string, EndpointGroup>();
    const families = familiesOf(service);
    for (const pod of pods) {
      const ports = endpointPorts(service, pod);
      const node = this.#options.nodes.get(pod.spec?.nodeName ?? '');
      const zone = node && zoneOf(node);
      for (const family of families) {
        const address = addressOf(pod, family);
        if (address === undefined) continue;
        const id = `${family} ${JSON.stringify(ports)}`;
        const group = groups.get(id) ?? { family, ports, endpoints: new Map<string, Endpoint>() };
        group.endpoints.set(pod.metadata?.uid ?? address, withHints(toEndpoint(pod, { address, service, zone }), service));
        groups.set(id, group);
      }
    }
    // a Service without pods gets one empty slice per family, which shows that it is managed
    for (const family of families) {
      if (![...groups.values()].some((group) => group.family === family)) groups.set(family, { family, ports: [], endpoints: new Map() });
    }
    if (usesTopologyHints(service)) for (const group of groups.values()) this.#addTopologyHints(service, group);
    return groups;
  }

  #addTopologyHints(service: Service, { family, endpoints }: EndpointGroup): void {
    this.#zoneCpuRatios ??= { of: zoneCpuRatios(this.#options.nodes.list()) };
    const zones = allocateHints([...endpoints.values()], this.#zoneCpuRatios.of);
    const failure = 'reason' in zones ? zones : undefined;
    this.#recordHintResult(service, family, endpoints.size === 0 ? undefined : failure);
    if ('reason' in zones) return;
    for (const [id, endpoint] of endpoints) {
      const zone = zones.get(endpoint);
      if (zone !== undefined) endpoints.set(id, { ...endpoint, hints: { forZones: [{ name: zone }] } });
    }
  }

  #recordHintResult(service: Service, family: IPFamily, failure: TopologyHintsFailure | undefined): void {
    const key = objectKey(service);
    const before = this.#hintFailures.get(key);
    if (failure?.reason === before) return;
    const suffix = `, addressType: ${family}`;
    if (failure === undefined) {
      this.#hintFailures.delete(key);
      this.#options.recorder.event(service, 'Normal', 'TopologyAwareHintsEnabled', `Topology Aware Hints has been enabled${suffix}`);
    } else {
      this.#hintFailures.set(key, failure.reason);
      this.#options.recorder.event(service, 'Warning', 'TopologyAwareHintsDisabled', `${failure.message}${suffix}`);
    }
  }

  /**
   * Distributes endpoints over EndpointSlices with as few writes as possible: updates existing endpoints in place, then fills slices with free
   * capacity, then creates slices.
   */
  async #reconcileByPortMapping(sync: ServiceSync, group: EndpointGroup, existing: readonly EndpointSlice[]): Promise<void> {
    const { key, service, trigger, client } = sync;
    const unplaced = new Map(group.endpoints);
    const labels = sliceLabels(service);
    const planned = existing.map((slice) => {
      const endpoints = (slice.endpoints ?? []).flatMap(({ targetRef }) => {
        const desired = unplaced.get(targetRef?.uid ?? '');
        if (desired === undefined) return [];
        unplaced.delete(targetRef?.uid ?? '');
        return [desired];
      });
      return { slice, kept: endpoints };
    });
    for (const plan of planned.toSorted((a, b) => b.kept.length - a.kept.length)) {
      for (const [uid, endpoint] of unplaced) {
        if (plan.kept.length >= this.#options.maxEndpoints) break;
        plan.kept.push(endpoint);
        unplaced.delete(uid);
      }
    }
    let remainingSlices = planned.length;
    for (const { slice, kept: endpoints } of planned) {
      if (endpoints.length === 0 && (remainingSlices > 1 || unplaced.size > 0)) {
        remainingSlices -= 1;
        await this.#deleteSlice(key, slice, client);
      } else if (!sameEndpoints(slice.endpoints ?? [], endpoints) || !sameLabels(slice.metadata?.labels ?? {}, labels)) {
        await client.update(endpointSlices, {
          ...slice,
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          metadata: { ...slice.metadata, labels, annotations: withTrigger(slice.metadata?.annotations, trigger) },
          endpoints: endpoints,
        });
      }
    }
    const rest = [...unplaced.values()];
    for (let at = 0; at < rest.length || (remainingSlices === 0 && at === 0); at += this.#options.maxEndpoints) {
      await this.#createSlice(sync, group, rest.slice(at, at + this.#options.maxEndpoints));
    }
  }

  async #createSlice({ key, service, trigger, client }: ServiceSync, group: EndpointGroup, endpoints: readonly Endpoint[]): Promise<void> {
    this.#expectations.expectCreations(key, 1);
    try {
      await client.create(endpointSlices, {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        addressType: group.family,
        ports: group.ports,
        endpoints,
        metadata: {
          generateName: `${service.metadata?.name}-`,
          ...(service.metadata?.namespace !== undefined && { namespace: service.metadata.namespace }),
          labels: sliceLabels(service),
          ...(trigger !== undefined && { annotations: withTrigger(undefined, trigger) }),
          ownerReferences: [controllerRef({ ...service, apiVersion: 'v1', kind: 'Service' })],
        },
      });
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
