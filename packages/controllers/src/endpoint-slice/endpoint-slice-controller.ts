import { controllerRef, objectKey } from '@oarlock/api/object';
import { endpointSlices, nodes, pods as podResource, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, Pod, Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { Expectations } from '../expectations.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';
import { countsAsEndpoint, addressOf, endpointPorts, familiesOf, toEndpoint, type Family } from './pod-endpoint.ts';
import { SelectorIndex } from './selector-index.ts';
import { managedBy, manager, sameEndpoints, sameLabels, samePorts, serviceLabel, sliceLabels } from './slice-shape.ts';
import { isShared, withHints } from './topology-hints.ts';
import { TriggerTimes, withTrigger } from './trigger-times.ts';
import { shareOut, shareText, zoneShares, type ShareRefusal, type ZoneShares } from './zone-shares.ts';
import { isNamespaceTerminating } from '../pod-template.ts';
import { tellingFailure } from '../telling-failure.ts';

const byService = 'slices-of-service';
const shared = 'services-shared-out';
const serviceOf = (slice: EndpointSlice) =>
  slice.metadata?.labels?.[managedBy] === manager ? [`${slice.metadata.namespace}/${slice.metadata.labels[serviceLabel] ?? ''}`] : [];

interface Parts {
  readonly services: Informer<Service>;
  readonly pods: Informer<Pod>;
  readonly slices: Informer<EndpointSlice>;
  readonly nodes: Informer<Node>;
  readonly recorder: EventRecorder;
  readonly maxEndpoints: number;
  readonly clock: Clock;
}
/** One Service at work. */
interface Work {
  readonly key: string;
  readonly service: Service;
  /** What its slices are changed for. */
  readonly trigger: string | undefined;
  readonly client: Client;
}
/** Endpoints that share ports and family go into the same slices. */
interface Group {
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: Map<string, Endpoint>;
}

/** Tells who serves each Service: the addresses of its pods, in slices of at most so many. */
export class EndpointSliceController implements Controller {
  readonly name = 'endpointslice';
  readonly watches;
  readonly #parts: Parts;
  readonly #selectors: SelectorIndex;
  readonly #triggers = new TriggerTimes();
  readonly #expectations: Expectations;
  /** Of the nodes as they were last. */
  #shares: { readonly of: ZoneShares } | undefined;
  /** Services whose endpoints could not be shared out, and why: told once. */
  readonly #refused = new Map<string, string>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#expectations = new Expectations(parts.clock);
    this.#selectors = new SelectorIndex(parts.services, parts.pods);
    parts.slices.addIndex(byService, serviceOf);
    parts.pods.addIndex(byNode, nodeOf);
    parts.services.addIndex(shared, (service) => (isShared(service) ? ['all'] : []));
    this.watches = [
      watch(parts.services, (service) => [objectKey(service)]),
      watch(parts.pods, (pod, old) => (old === undefined || matters(pod, old) ? this.#selectors.servicesOf(pod, old) : [])),
      watch(parts.slices, serviceOf),
      // endpoints tell the zone of their node
      watch(parts.nodes, (node, old) =>
        old !== undefined && zoneOf(node) === zoneOf(old)
          ? []
          : parts.pods.byIndex(byNode, node.metadata?.name ?? '').flatMap((pod) => [...this.#selectors.servicesOf(pod, undefined)]),
      ),
      watch(parts.nodes, (node, old) => {
        if (old !== undefined && node !== old && shareText(node) === shareText(old)) return [];
        this.#shares = undefined;
        return parts.services.byIndex(shared, 'all').map(objectKey);
      }),
    ];
    parts.slices.on({
      added: (slice) => {
        for (const key of serviceOf(slice)) this.#expectations.created(key);
      },
      deleted: (slice) => {
        for (const key of serviceOf(slice)) this.#expectations.deleted(key, slice.metadata?.uid ?? '');
      },
    });
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<void> {
    const service = this.#parts.services.get(key);
    const present = this.#parts.slices.byIndex(byService, key).filter((slice) => slice.metadata?.deletionTimestamp === undefined);
    // the garbage collector takes the slices of a Service that is gone
    if (service === undefined || service.metadata?.deletionTimestamp !== undefined) {
      this.#expectations.forget(key);
      this.#refused.delete(key);
      this.#triggers.forget(key);
      return;
    }
    // what was made and removed last is still on its way to the cache, and will wake this key when it is there
    if (!this.#expectations.met(key)) return;
    // without a selector somebody else writes the slices
    if (service.spec?.type === 'ExternalName' || Object.keys(service.spec?.selector ?? {}).length === 0) return;
    const what = `Error updating Endpoint Slices for Service ${key}`;
    await tellingFailure(this.#parts.recorder, service, 'FailedToUpdateEndpointSlices', what, () =>
      this.#update(key, service, present, client),
    );
  }

  async #update(key: string, service: Service, present: readonly EndpointSlice[], client: Client): Promise<void> {
    const pods = this.#selectors.podsOf(service);
    const groups = this.#groups(service, pods.filter(countsAsEndpoint));
    const trigger = this.#triggers.next(key, service, pods);
    const unused = new Set(present);
    for (const group of groups.values()) {
      const own = present.filter((slice) => slice.addressType === group.family && samePorts(slice.ports ?? [], group.ports));
      for (const slice of own) unused.delete(slice);
      await this.#bring({ key, service, trigger, client }, group, own);
    }
    for (const slice of unused) await this.#remove(key, slice, client);
  }

  #groups(service: Service, pods: readonly Pod[]): ReadonlyMap<string, Group> {
    const groups = new Map<string, Group>();
    const families = familiesOf(service);
    for (const pod of pods) {
      const ports = endpointPorts(service, pod);
      const node = this.#parts.nodes.get(pod.spec?.nodeName ?? '');
      const zone = node && zoneOf(node);
      for (const family of families) {
        const address = addressOf(pod, family);
        if (address === undefined) continue;
        const id = `${family} ${JSON.stringify(ports)}`;
        const group = groups.get(id) ?? { family, ports, endpoints: new Map<string, Endpoint>() };
        group.endpoints.set(pod.metadata?.uid ?? address, withHints(toEndpoint(pod, address, service, zone), service));
        groups.set(id, group);
      }
    }
    // a Service without pods has one empty slice per family, so that clients know it is looked after
    for (const family of families) {
      if (![...groups.values()].some((group) => group.family === family)) groups.set(family, { family, ports: [], endpoints: new Map() });
    }
    if (isShared(service)) for (const group of groups.values()) this.#share(service, group);
    return groups;
  }

  #share(service: Service, { family, endpoints }: Group): void {
    this.#shares ??= { of: zoneShares(this.#parts.nodes.list()) };
    const zones = shareOut([...endpoints.values()], this.#shares.of);
    const refusal = 'reason' in zones ? zones : undefined;
    this.#tell(service, family, endpoints.size === 0 ? undefined : refusal);
    if ('reason' in zones) return;
    for (const [id, endpoint] of endpoints) {
      const zone = zones.get(endpoint);
      if (zone !== undefined) endpoints.set(id, { ...endpoint, hints: { forZones: [{ name: zone }] } });
    }
  }

  #tell(service: Service, family: Family, refusal: ShareRefusal | undefined): void {
    const key = objectKey(service);
    const before = this.#refused.get(key);
    if (refusal?.reason === before) return;
    const about = `, addressType: ${family}`;
    if (refusal === undefined) {
      this.#refused.delete(key);
      this.#parts.recorder.event(service, 'Normal', 'TopologyAwareHintsEnabled', `Topology Aware Hints has been enabled${about}`);
    } else {
      this.#refused.set(key, refusal.reason);
      this.#parts.recorder.event(service, 'Warning', 'TopologyAwareHintsDisabled', `${refusal.message}${about}`);
    }
  }

  /** Changes as few slices as possible: first what is there is corrected, then the rest goes where there is room. */
  async #bring(work: Work, group: Group, own: readonly EndpointSlice[]): Promise<void> {
    const { key, service, trigger, client } = work;
    const waiting = new Map(group.endpoints);
    const labels = sliceLabels(service);
    const planned = own.map((slice) => {
      const kept = (slice.endpoints ?? []).flatMap(({ targetRef }) => {
        const wanted = waiting.get(targetRef?.uid ?? '');
        if (wanted === undefined) return [];
        waiting.delete(targetRef?.uid ?? '');
        return [wanted];
      });
      return { slice, kept };
    });
    for (const plan of planned.toSorted((a, b) => b.kept.length - a.kept.length)) {
      for (const [uid, endpoint] of waiting) {
        if (plan.kept.length >= this.#parts.maxEndpoints) break;
        plan.kept.push(endpoint);
        waiting.delete(uid);
      }
    }
    let left = planned.length;
    for (const { slice, kept } of planned) {
      if (kept.length === 0 && (left > 1 || waiting.size > 0)) {
        left -= 1;
        await this.#remove(key, slice, client);
      } else if (!sameEndpoints(slice.endpoints ?? [], kept) || !sameLabels(slice.metadata?.labels ?? {}, labels)) {
        await client.update(endpointSlices, {
          ...slice,
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          metadata: { ...slice.metadata, labels, annotations: withTrigger(slice.metadata?.annotations, trigger) },
          endpoints: kept,
        });
      }
    }
    const rest = [...waiting.values()];
    for (let at = 0; at < rest.length || (left === 0 && at === 0); at += this.#parts.maxEndpoints) {
      await this.#make(work, group, rest.slice(at, at + this.#parts.maxEndpoints));
    }
  }

  async #make({ key, service, trigger, client }: Work, group: Group, endpoints: readonly Endpoint[]): Promise<void> {
    this.#expectations.creations(key, 1);
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

  async #remove(key: string, slice: EndpointSlice, client: Client): Promise<void> {
    const uid = slice.metadata?.uid ?? '';
    this.#expectations.deletion(key, uid);
    try {
      await client.delete(
        endpointSlices,
        { namespace: slice.metadata?.namespace ?? '', name: slice.metadata?.name ?? '' },
        { preconditions: { uid } },
      );
    } catch (error) {
      this.#expectations.deleted(key, uid);
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}

const zoneOf = ({ metadata }: Node) => metadata?.labels?.['topology.kubernetes.io/zone'];

/** What of a pod its endpoints show. */
function matters(pod: Pod, old: Pod): boolean {
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
      services: informers.of(services),
      pods: informers.of(podResource),
      slices: informers.of(endpointSlices),
      nodes: informers.of(nodes),
      maxEndpoints: config.maxEndpointsPerSlice,
      recorder: events.recorder('endpoint-slice-controller'),
      clock,
    }),
});
