import { parseIPSloppy } from '@oarlock/api/net/sloppy-ip';
import { controllerRef, objectKey, type ObjectKey } from '@oarlock/api/object';
import { endpoints as endpointsResource, endpointSlices, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { EndpointAddress, Endpoints, EndpointSubset, Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext } from '@oarlock/spi/controller';
import { z } from 'zod';
import { familyOf, type IPFamily } from '../endpoint-slice/pod-endpoint.ts';
import { ControllerExpectations } from '../../expectations/controller-expectations.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';

const serviceLabel = 'kubernetes.io/service-name';
const managedByLabel = 'endpointslice.kubernetes.io/managed-by';
const controllerName = 'endpointslicemirroring-controller.k8s.io';
const skipMirrorLabel = 'endpointslice.kubernetes.io/skip-mirror';
const leaderAnnotation = 'control-plane.alpha.kubernetes.io/leader';
const excludedAnnotations: ReadonlySet<string> = new Set([
  'kubectl.kubernetes.io/last-applied-configuration',
  'endpoints.kubernetes.io/last-change-trigger-time',
]);
const byEndpoints = 'mirrored-slices';
const mirrorKeys = ({ metadata }: EndpointSlice) =>
  metadata?.labels?.[managedByLabel] === controllerName ? [`${metadata.namespace}/${metadata.labels[serviceLabel] ?? ''}`] : [];

interface EndpointSliceMirroringControllerOptions {
  readonly endpoints: Informer<Endpoints>;
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  readonly clock: Clock;
  readonly maxPerSubset: number;
  readonly recorder: EventRecorder;
}
type DesiredEndpointSlice = Pick<EndpointSlice, 'addressType' | 'ports'> & { readonly endpoints: readonly Endpoint[] };

/** Mirrors the Endpoints of Services without a selector, which users manage, into EndpointSlices. */
export class EndpointSliceMirroringController implements Controller {
  readonly name = 'endpointslicemirroring';
  readonly watches;
  readonly #options: EndpointSliceMirroringControllerOptions;
  readonly #expectations: ControllerExpectations;

  constructor(options: EndpointSliceMirroringControllerOptions) {
    this.#options = options;
    this.#expectations = new ControllerExpectations(options.clock);
    options.slices.addIndexer(byEndpoints, mirrorKeys);
    this.watches = [
      watch(options.endpoints, (each) => [objectKey(each)]),
      watch(options.services, (service) => [objectKey(service)]),
      watch(options.slices, mirrorKeys),
    ];
    options.slices.addEventHandler({
      onAdd: (slice) => {
        for (const key of mirrorKeys(slice)) this.#expectations.creationObserved(key);
      },
      onDelete: (slice) => {
        for (const key of mirrorKeys(slice)) this.#expectations.deletionObserved(key, slice.metadata?.uid ?? '');
      },
    });
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<void> {
    const { endpoints, services: all, slices } = this.#options;
    if (!this.#expectations.satisfied(key)) return;
    const source = endpoints.get(key);
    const service = all.get(key);
    const existing = slices.byIndex(byEndpoints, key).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
    const mirrors = source !== undefined && service !== undefined && shouldMirror(source, service);
    // as upstream: a failure is logged and retried, without an Event
    return this.#mirror(key, { source: mirrors ? source : undefined, existing, client });
  }

  async #mirror(
    key: ObjectKey,
    {
      source,
      existing,
      client,
    }: { readonly source: Endpoints | undefined; readonly existing: readonly EndpointSlice[]; readonly client: Client },
  ): Promise<void> {
    const { maxPerSubset, recorder } = this.#options;
    const desired = source === undefined ? [] : slicesOf(source, maxPerSubset);
    const { skipped, invalid } = source === undefined ? { skipped: 0, invalid: 0 } : skippedAddresses(source, maxPerSubset);
    if (source !== undefined && invalid > 0)
      recorder.event(
        withTypeMeta(endpointsResource, source),
        'Warning',
        'InvalidIPAddress',
        `Skipped ${invalid} invalid IP addresses when mirroring to EndpointSlices`,
      );
    // as upstream, the number of skipped addresses includes invalid ones
    if (source !== undefined && skipped > invalid)
      recorder.event(
        withTypeMeta(endpointsResource, source),
        'Warning',
        'TooManyAddressesToMirror',
        `A max of ${maxPerSubset} addresses can be mirrored to EndpointSlices per Endpoints subset. ${skipped} addresses were skipped`,
      );
    const unused = new Map(existing.map((slice) => [slice, idOf(slice)]));
    const matches = desired.map((each) => {
      const [match] = [...unused].find(([, id]) => id === idOf(each)) ?? [];
      if (match !== undefined) unused.delete(match);
      return { desired: each, match };
    });
    for (const { desired: each, match } of matches) {
      // as upstream: a slice for new ports replaces one that is not needed, which keeps its name
      const recycled = match ?? [...unused.keys()].find(({ addressType }) => addressType === each.addressType);
      if (recycled !== undefined) unused.delete(recycled);
      if (source !== undefined) await this.#reconcileSlices(key, source, { desired: each, existing: recycled, client });
    }
    for (const slice of unused.keys()) await this.#remove(key, slice, client);
  }

  async #reconcileSlices(
    key: ObjectKey,
    source: Endpoints,
    {
      desired,
      existing,
      client,
    }: { readonly desired: DesiredEndpointSlice; readonly existing: EndpointSlice | undefined; readonly client: Client },
  ): Promise<void> {
    const labels = { ...source.metadata?.labels, [serviceLabel]: source.metadata?.name ?? '', [managedByLabel]: controllerName };
    const annotations = Object.fromEntries(
      Object.entries(source.metadata?.annotations ?? {}).filter(([name]) => !excludedAnnotations.has(name)),
    );
    if (existing !== undefined) {
      const comparable = ({ endpoints, ports, metadata }: Pick<EndpointSlice, 'endpoints' | 'ports' | 'metadata'>) =>
        JSON.stringify([
          endpoints ?? [],
          portsText(ports),
          Object.entries(metadata?.labels ?? {}).sort(),
          Object.entries(metadata?.annotations ?? {}).sort(),
        ]);
      if (comparable(existing) !== comparable({ ...desired, metadata: { labels, annotations } }))
        await client.update(endpointSlices, {
          ...withTypeMeta(endpointSlices, existing),
          ...desired,
          metadata: { ...existing.metadata, labels, annotations },
        });
      return;
    }
    // as upstream: Endpoints that are being deleted keep their slices, but get no new ones
    if (source.metadata?.deletionTimestamp !== undefined) return;
    this.#expectations.expectCreations(key, 1);
    try {
      await client.create(endpointSlices, {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        ...desired,
        metadata: {
          generateName: `${source.metadata?.name}-`,
          namespace: source.metadata?.namespace ?? '',
          labels,
          annotations,
          ownerReferences: [controllerRef(withTypeMeta(endpointsResource, source))],
        },
      });
    } catch (error) {
      this.#expectations.creationFailed(key);
      if (!isNamespaceTerminating(error)) throw error;
    }
  }

  async #remove(key: ObjectKey, slice: EndpointSlice, client: Client): Promise<void> {
    const uid = slice.metadata?.uid ?? '';
    this.#expectations.expectDeletion(key, uid);
    try {
      await client.delete(endpointSlices, objectName(slice), { preconditions: { uid } });
    } catch (error) {
      this.#expectations.deletionObserved(key, uid);
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }
}

const shouldMirror = ({ metadata }: Endpoints, { spec }: Service) =>
  metadata?.labels?.[skipMirrorLabel] !== 'true' &&
  metadata?.annotations?.[leaderAnnotation] === undefined &&
  Object.keys(spec?.selector ?? {}).length === 0;

const portsText = (ports: readonly EndpointPort[] | undefined) =>
  JSON.stringify(
    (ports ?? []).map(({ name, port, protocol, appProtocol }) => [name ?? '', port ?? 0, protocol ?? 'TCP', appProtocol ?? '']).sort(),
  );
/** Returns the identity of a mirrored EndpointSlice: its address family and ports. */
const idOf = ({ addressType, ports }: DesiredEndpointSlice | EndpointSlice) => `${addressType} ${portsText(ports)}`;

const toEndpoint = ({ ip, hostname, nodeName, targetRef }: EndpointAddress, ready: boolean): Endpoint => ({
  // Endpoints may have a notation with leading zeros, which EndpointSlices reject
  addresses: [parseIPSloppy(ip)?.canonical ?? ip],
  conditions: { ready },
  ...(hostname !== undefined && { hostname }),
  ...(nodeName !== undefined && { nodeName }),
  ...(targetRef !== undefined && { targetRef }),
});

/** Returns true for an IP address. Endpoints that an older API server stored may have other texts. */
const hasValidIP = ({ ip }: EndpointAddress): boolean => parseIPSloppy(ip) !== undefined;

/** Returns what distinguishes endpoints of one slice: of equal ones, upstream keeps the last. */
const identityOf = ({ addresses, hostname = '', targetRef }: Endpoint) =>
  JSON.stringify([addresses, hostname, targetRef?.namespace ?? '', targetRef?.name ?? '']);

/** Returns a slice of at most `maxPerSubset` endpoints for each address family and port list. */
function slicesOf({ subsets = [] }: Endpoints, maxPerSubset: number): readonly DesiredEndpointSlice[] {
  const groups = new Map<string, { readonly slice: DesiredEndpointSlice; readonly endpoints: Map<string, Endpoint> }>();
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
      ...addresses.filter(hasValidIP).map((address) => toEndpoint(address, true)),
      ...notReadyAddresses.filter(hasValidIP).map((address) => toEndpoint(address, false)),
    ];
    for (const endpoint of all.slice(0, maxPerSubset)) {
      const addressType: IPFamily = familyOf(endpoint.addresses[0] ?? '');
      const slice: DesiredEndpointSlice = { addressType, ports: slicePorts, endpoints: [] };
      const group = groups.get(idOf(slice)) ?? { slice, endpoints: new Map<string, Endpoint>() };
      groups.set(idOf(slice), group);
      group.endpoints.set(identityOf(endpoint), endpoint);
    }
  }
  return [...groups.values()].map(({ slice, endpoints }) => ({ ...slice, endpoints: [...endpoints.values()].slice(0, maxPerSubset) }));
}

/** Returns how many addresses are not mirrored, and how many of these are invalid; addresses behind the last mirrored one are not checked. */
function skippedAddresses({ subsets = [] }: Endpoints, maxPerSubset: number): { readonly skipped: number; readonly invalid: number } {
  let [skipped, invalid] = [0, 0];
  for (const { addresses = [], notReadyAddresses = [] } of subsets) {
    let mirrored = 0;
    for (const address of [...addresses, ...notReadyAddresses]) {
      const isFull = mirrored >= maxPerSubset;
      if (!isFull && hasValidIP(address)) mirrored += 1;
      else skipped += 1;
      if (!isFull && !hasValidIP(address)) invalid += 1;
    }
  }
  return { skipped, invalid };
}

export default Controllers.plugin({
  id: 'controller-endpoint-slice-mirroring',
  declares: { loop: 'endpointslicemirroring' },
  config: z.strictObject({
    /** Maximum number of addresses of an Endpoints subset that are mirrored; further addresses are ignored. */
    maxEndpointsPerSubset: z.number().int().min(1).max(1000).default(1000),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new EndpointSliceMirroringController({
      endpoints: informers.forResource(endpointsResource),
      services: informers.forResource(services),
      slices: informers.forResource(endpointSlices),
      clock,
      maxPerSubset: config.maxEndpointsPerSubset,
      recorder: events.recorder('endpoint-slice-mirroring-controller'),
    }),
});
