import { objectKey } from '@oarlock/api/object';
import { endpoints as endpointsResource, pods as podResource, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { EndpointAddress, EndpointPort, Endpoints, EndpointSubset, Pod, Service } from '@oarlock/api/types/core-v1';
import { Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { addressOf, countsAsEndpoint, endpointPorts, familiesOf } from '../endpoint-slice/pod-endpoint.ts';
import { SelectorIndex } from '../endpoint-slice/selector-index.ts';
import { TriggerTimes, withTrigger } from '../endpoint-slice/trigger-times.ts';
import { isReady, isTerminating } from '../pod-state.ts';
import { isNamespaceTerminating } from '../pod-template.ts';
import { tellingFailure } from '../telling-failure.ts';

const maxAddresses = 1000; // beyond that upstream cuts and says so in an annotation
const overCapacity = 'endpoints.kubernetes.io/over-capacity';
const managedBy = 'endpoints.kubernetes.io/managed-by';
interface Parts {
  readonly services: Informer<Service>;
  readonly pods: Informer<Pod>;
  readonly endpoints: Informer<Endpoints>;
  readonly recorder: EventRecorder;
}

/** The older form of EndpointSlices, one object per Service, for clients that still read it. */
export class EndpointsController implements Controller {
  readonly name = 'endpoints';
  readonly watches;
  readonly #parts: Parts;
  readonly #selectors: SelectorIndex;
  readonly #triggers = new TriggerTimes();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#selectors = new SelectorIndex(parts.services, parts.pods);
    this.watches = [
      watch(parts.services, (service) => [objectKey(service)]),
      watch(parts.pods, (pod, old) => this.#selectors.servicesOf(pod, old)),
      watch(parts.endpoints, (endpoints) => [objectKey(endpoints)]),
    ];
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<void> {
    const service = this.#parts.services.get(key);
    const present = this.#parts.endpoints.get(key);
    if (service === undefined) {
      this.#triggers.forget(key);
      // those nobody made for a Service, such as of a leader election, are not ours
      if (present?.metadata?.labels?.[managedBy] === undefined) return;
      try {
        await client.delete(
          endpointsResource,
          { namespace: present.metadata.namespace ?? '', name: present.metadata.name ?? '' },
          { preconditions: { uid: present.metadata.uid ?? '' } },
        );
      } catch (error) {
        if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
      }
      return;
    }
    if (service.metadata?.deletionTimestamp !== undefined || Object.keys(service.spec?.selector ?? {}).length === 0) return;
    const pods = this.#selectors.podsOf(service);
    const { subsets, cut } = this.#subsets(service, pods.filter(countsAsEndpoint));
    const trigger = this.#triggers.next(key, service, pods);
    const labels = {
      ...service.metadata?.labels,
      [managedBy]: 'endpoint-controller',
      ...(service.spec?.clusterIP === 'None' && { 'service.kubernetes.io/headless': '' }),
    };
    const annotations: Record<string, string> = { ...present?.metadata?.annotations };
    if (cut) annotations[overCapacity] = 'truncated';
    else delete annotations[overCapacity];
    const noted = withTrigger(annotations, trigger);
    const { annotations: _former, ...kept } = present?.metadata ?? {};
    const wanted: Endpoints = {
      ...present,
      apiVersion: 'v1',
      kind: 'Endpoints',
      subsets,
      metadata: {
        ...kept,
        name: service.metadata?.name ?? '',
        namespace: service.metadata?.namespace ?? '',
        labels,
        ...(Object.keys(noted).length > 0 && { annotations: noted }),
      },
    };
    const told = (reason: string, what: string, work: () => Promise<unknown>) =>
      tellingFailure(this.#parts.recorder, wanted, reason, `Failed to ${what} ${key}`, work);
    if (present === undefined)
      await told('FailedToCreateEndpoint', 'create endpoint for service', async () => {
        await client.create(endpointsResource, wanted).catch((error: unknown) => {
          if (!isNamespaceTerminating(error)) throw error;
        });
      });
    else if (
      JSON.stringify([present.subsets ?? [], sorted(present.metadata?.labels), present.metadata?.annotations ?? {}]) !==
      JSON.stringify([subsets, sorted(labels), annotations])
    )
      await told('FailedToUpdateEndpoint', 'update endpoint', () => client.update(endpointsResource, wanted));
  }

  #subsets(service: Service, pods: readonly Pod[]): { readonly subsets: readonly EndpointSubset[]; readonly cut: boolean } {
    const [family = 'IPv4'] = familiesOf(service);
    const groups = new Map<
      string,
      { readonly ports: readonly EndpointPort[]; readonly ready: EndpointAddress[]; readonly notReady: EndpointAddress[] }
    >();
    let count = 0;
    let cut = false;
    for (const pod of pods) {
      const ip = addressOf(pod, family);
      if (ip === undefined || (isTerminating(pod) && service.spec?.publishNotReadyAddresses !== true)) continue;
      if (++count > maxAddresses) {
        cut = true;
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
    return { subsets, cut };
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
      services: informers.of(services),
      pods: informers.of(podResource),
      endpoints: informers.of(endpointsResource),
      recorder: events.recorder('endpoint-controller'),
    }),
});
