import { controllerRef, objectKey, type ObjectKey } from '@oarlock/api/object';
import { endpoints as endpointsResource, endpointSlices, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { EndpointAddress, Endpoints, EndpointSubset, Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { familyOf, type Family } from '../endpoint-slice/pod-endpoint.ts';
import { Expectations } from '../expectations.ts';
import { isNamespaceTerminating, nameOf, typed } from '../pod-template.ts';
import { tellingFailure } from '../telling-failure.ts';

const serviceLabel = 'kubernetes.io/service-name';
const managedBy = 'endpointslice.kubernetes.io/managed-by';
const manager = 'endpointslicemirroring-controller.k8s.io';
const skip = 'endpointslice.kubernetes.io/skip-mirror';
const leader = 'control-plane.alpha.kubernetes.io/leader';
const ownAnnotations: ReadonlySet<string> = new Set([
  'kubectl.kubernetes.io/last-applied-configuration',
  'endpoints.kubernetes.io/last-change-trigger-time',
]);
const byEndpoints = 'mirrored-slices';
const mirrored = ({ metadata }: EndpointSlice) =>
  metadata?.labels?.[managedBy] === manager ? [`${metadata.namespace}/${metadata.labels[serviceLabel] ?? ''}`] : [];

interface Parts {
  readonly endpoints: Informer<Endpoints>;
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  readonly clock: Clock;
  readonly maxPerSubset: number;
  readonly recorder: EventRecorder;
}
type Wanted = Pick<EndpointSlice, 'addressType' | 'ports'> & { readonly endpoints: readonly Endpoint[] };

/** Copies Endpoints that people write by hand, for Services without a selector, into EndpointSlices. */
export class EndpointSliceMirroringController implements Controller {
  readonly name = 'endpointslicemirroring';
  readonly watches;
  readonly #parts: Parts;
  readonly #expectations: Expectations;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#expectations = new Expectations(parts.clock);
    parts.slices.addIndex(byEndpoints, mirrored);
    this.watches = [
      watch(parts.endpoints, (each) => [objectKey(each)]),
      watch(parts.services, (service) => [objectKey(service)]),
      watch(parts.slices, mirrored),
    ];
    parts.slices.on({
      added: (slice) => {
        for (const key of mirrored(slice)) this.#expectations.created(key);
      },
      deleted: (slice) => {
        for (const key of mirrored(slice)) this.#expectations.deleted(key, slice.metadata?.uid ?? '');
      },
    });
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<void> {
    const { endpoints, services: all, slices, recorder } = this.#parts;
    if (!this.#expectations.met(key)) return;
    const source = endpoints.get(key);
    const service = all.get(key);
    const present = slices.byIndex(byEndpoints, key).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
    const mirrors = source !== undefined && service !== undefined && isMirrored(source, service);
    const work = () => this.#mirror(key, mirrors ? source : undefined, present, client);
    if (source === undefined) return work();
    const what = `Error updating Endpoint Slices for Endpoints ${key}`;
    return tellingFailure(recorder, typed(endpointsResource, source), 'FailedToUpdateEndpointSlices', what, work);
  }

  async #mirror(key: ObjectKey, source: Endpoints | undefined, present: readonly EndpointSlice[], client: Client): Promise<void> {
    const { maxPerSubset, recorder } = this.#parts;
    const wanted = source === undefined ? [] : slicesOf(source, maxPerSubset);
    const skipped = source === undefined ? 0 : skippedOf(source, maxPerSubset);
    if (source !== undefined && skipped > 0)
      recorder.event(
        typed(endpointsResource, source),
        'Warning',
        'TooManyAddressesToMirror',
        `A max of ${maxPerSubset} addresses can be mirrored to EndpointSlices per Endpoints subset. ${skipped} addresses were skipped`,
      );
    const unused = new Map(present.map((slice) => [slice, idOf(slice)]));
    for (const each of wanted) {
      const [same] = [...unused].find(([, id]) => id === idOf(each)) ?? [];
      if (same !== undefined) unused.delete(same);
      if (source !== undefined) await this.#bring(key, source, each, same, client);
    }
    for (const slice of unused.keys()) await this.#remove(key, slice, client);
  }

  async #bring(key: ObjectKey, source: Endpoints, wanted: Wanted, present: EndpointSlice | undefined, client: Client): Promise<void> {
    const labels = { ...source.metadata?.labels, [serviceLabel]: source.metadata?.name ?? '', [managedBy]: manager };
    const annotations = Object.fromEntries(
      Object.entries(source.metadata?.annotations ?? {}).filter(([name]) => !ownAnnotations.has(name)),
    );
    if (present !== undefined) {
      const text = ({ endpoints, metadata }: EndpointSlice | { endpoints: readonly Endpoint[]; metadata: EndpointSlice['metadata'] }) =>
        JSON.stringify([
          endpoints ?? [],
          Object.entries(metadata?.labels ?? {}).sort(),
          Object.entries(metadata?.annotations ?? {}).sort(),
        ]);
      if (text(present) !== text({ endpoints: wanted.endpoints, metadata: { labels, annotations } }))
        await client.update(endpointSlices, {
          ...typed(endpointSlices, present),
          endpoints: wanted.endpoints,
          metadata: { ...present.metadata, labels, annotations },
        });
      return;
    }
    this.#expectations.creations(key, 1);
    try {
      await client.create(endpointSlices, {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        ...wanted,
        metadata: {
          generateName: `${source.metadata?.name}-`,
          namespace: source.metadata?.namespace ?? '',
          labels,
          annotations,
          ownerReferences: [controllerRef(typed(endpointsResource, source))],
        },
      });
    } catch (error) {
      this.#expectations.creationFailed(key);
      if (!isNamespaceTerminating(error)) throw error;
    }
  }

  async #remove(key: ObjectKey, slice: EndpointSlice, client: Client): Promise<void> {
    const uid = slice.metadata?.uid ?? '';
    this.#expectations.deletion(key, uid);
    try {
      await client.delete(endpointSlices, nameOf(slice), { preconditions: { uid } });
    } catch (error) {
      this.#expectations.deleted(key, uid);
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}

const isMirrored = ({ metadata }: Endpoints, { spec }: Service) =>
  metadata?.deletionTimestamp === undefined &&
  metadata?.labels?.[skip] !== 'true' &&
  metadata?.annotations?.[leader] === undefined &&
  Object.keys(spec?.selector ?? {}).length === 0;

const portsText = (ports: readonly EndpointPort[] = []) =>
  JSON.stringify(
    ports.map(({ name, port, protocol, appProtocol }) => [name ?? '', port ?? 0, protocol ?? 'TCP', appProtocol ?? '']).sort(),
  );
/** Slices of the same family and ports are the same slice. */
const idOf = ({ addressType, ports }: Wanted | EndpointSlice) => `${addressType} ${portsText(ports)}`;

const toEndpoint = ({ ip, hostname, nodeName, targetRef }: EndpointAddress, ready: boolean): Endpoint => ({
  addresses: [ip],
  conditions: { ready },
  ...(hostname !== undefined && { hostname }),
  ...(nodeName !== undefined && { nodeName }),
  ...(targetRef !== undefined && { targetRef }),
});

function slicesOf({ subsets = [] }: Endpoints, most: number): readonly Wanted[] {
  const groups = new Map<string, { readonly wanted: Wanted; readonly endpoints: Endpoint[] }>();
  for (const { addresses = [], notReadyAddresses = [], ports = [] } of subsets as readonly EndpointSubset[]) {
    const slicePorts = ports.map(
      ({ name, port, protocol, appProtocol }): EndpointPort => ({
        name: name ?? '',
        port,
        protocol: protocol ?? 'TCP',
        ...(appProtocol !== undefined && { appProtocol }),
      }),
    );
    const all = [
      ...addresses.map((address) => toEndpoint(address, true)),
      ...notReadyAddresses.map((address) => toEndpoint(address, false)),
    ];
    for (const endpoint of all.slice(0, most)) {
      const addressType: Family = familyOf(endpoint.addresses[0] ?? '');
      const endpoints: Endpoint[] = [];
      const wanted: Wanted = { addressType, ports: slicePorts, endpoints };
      const group = groups.get(idOf(wanted)) ?? { wanted, endpoints };
      groups.set(idOf(wanted), group);
      group.endpoints.push(endpoint);
    }
  }
  return [...groups.values()].map(({ wanted }) => wanted);
}

const skippedOf = ({ subsets = [] }: Endpoints, most: number): number =>
  subsets.reduce(
    (sum, { addresses = [], notReadyAddresses = [] }) => sum + Math.max(0, addresses.length + notReadyAddresses.length - most),
    0,
  );

export default Controllers.plugin({
  id: 'controller-endpoint-slice-mirroring',
  declares: { loop: 'endpointslicemirroring' },
  config: z.strictObject({
    /** Further addresses of a subset are left out. */
    maxEndpointsPerSubset: z.number().int().min(1).max(1000).default(1000),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new EndpointSliceMirroringController({
      endpoints: informers.of(endpointsResource),
      services: informers.of(services),
      slices: informers.of(endpointSlices),
      clock,
      maxPerSubset: config.maxEndpointsPerSubset,
      recorder: events.recorder('endpoint-slice-mirroring-controller'),
    }),
});
