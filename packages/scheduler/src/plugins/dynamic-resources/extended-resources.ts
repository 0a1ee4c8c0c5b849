import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import type { Container, ContainerExtendedResourceRequest, Pod } from '@oarlock/api/types/core-v1';
import type { DeviceClass, DeviceRequest, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { quantityValue } from '@oarlock/api/values/quantity';
import type { Informer } from '@oarlock/spi/client';
import type { Resources, NodeInfo } from '@oarlock/spi/scheduling';

const implicitPrefix = 'deviceclass.resource.kubernetes.io/';
const annotation = 'resource.kubernetes.io/extended-resource-claim';

/**
 * Maps extended resources to DeviceClasses (KEP-5004): to the newest DeviceClass with the resource as its `extendedResourceName`, or to the
 * DeviceClass that the resource's name contains.
 */
export class ExtendedResourceCache {
  readonly #classes: Informer<DeviceClass>;
  #byResource: ReadonlyMap<string, DeviceClass> | undefined;

  constructor(classes: Informer<DeviceClass>) {
    this.#classes = classes;
    const invalidate = () => {
      this.#byResource = undefined;
    };
    classes.addEventHandler({ onAdd: invalidate, onUpdate: invalidate, onDelete: invalidate });
  }

  classOf(resource: string): string | undefined {
    this.#byResource ??= byResource(this.#classes.list());
    return this.#byResource.get(resource)?.metadata?.name;
  }

  /** Returns true if a node provides the resource through devices: a DeviceClass backs the resource, and no device plugin of the node provides it. */
  isDelegated(resource: string, { allocatable }: Pick<NodeInfo, 'allocatable'>): boolean {
    return (allocatable.scalar.get(resource) ?? 0) === 0 && this.classOf(resource) !== undefined;
  }

  /** Returns the names of the requested resources that a DeviceClass backs, sorted. */
  namesIn({ scalar }: Resources): readonly string[] {
    return [...scalar].flatMap(([name, amount]) => (amount > 0 && this.classOf(name) !== undefined ? [name] : [])).sort();
  }
}

const creationTime = ({ metadata }: DeviceClass) => Date.parse(metadata?.creationTimestamp ?? '') || 0;

function byResource(classes: readonly DeviceClass[]): ReadonlyMap<string, DeviceClass> {
  const found = new Map<string, DeviceClass>();
  for (const each of classes) {
    found.set(`${implicitPrefix}${each.metadata?.name}`, each);
    const { extendedResourceName: name } = each.spec;
    if (name === undefined) continue;
    const other = found.get(name);
    const ageDifference = other === undefined ? 1 : creationTime(each) - creationTime(other);
    if (ageDifference > 0 || (ageDifference === 0 && (each.metadata?.name ?? '') < (other?.metadata?.name ?? ''))) found.set(name, each);
  }
  return found;
}

/** The claim for the extended resources of a pod that a node provides through devices. */
export interface ExtendedResourceClaim {
  readonly claim: ResourceClaim;
  /** The request of the claim for each resource of each container. */
  readonly mappings: readonly ContainerExtendedResourceRequest[];
}

/** Returns a claim that exists only in memory; `withGenerateName` prepares the claim for the API server. */
export function buildExtendedResourceClaim(
  pod: Pod,
  names: readonly string[],
  classOf: (name: string) => string | undefined,
): ExtendedResourceClaim {
  const { namespace = '', name = '', uid = '' } = pod.metadata ?? {};
  const parts = names.map((resource) => requestsFor(pod, resource, classOf(resource) ?? ''));
  const requests = parts.flatMap((each) => each.requests).sort((a, b) => (a.name < b.name ? -1 : 1));
  const claim: ResourceClaim = {
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceClaim',
    metadata: {
      namespace,
      name: `<extended-resources>${name}`,
      annotations: { [annotation]: 'true' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name, uid, controller: true }],
    },
    spec: { devices: { requests } },
  };
  return { claim, mappings: parts.flatMap((each) => each.mappings) };
}

export const isExtendedResourceClaim = ({ metadata }: ResourceClaim): boolean => metadata?.annotations?.[annotation] === 'true';

/** Returns the claim with `generateName` instead of the in-memory name. */
export function withGenerateName(claim: ResourceClaim, { metadata }: Pod): ResourceClaim {
  const { name: _inMemory, ...rest } = claim.metadata ?? {};
  return { ...claim, metadata: { ...rest, generateName: `${metadata?.name}-extended-resources-` } };
}

/**
 * Returns one request for each container and sidecar, and at most one for all init containers: an init container can use the devices of later
 * containers, so only the largest additional demand of an init container is requested.
 */
function requestsFor(pod: Pod, resource: string, deviceClassName: string) {
  const starting = pod.spec?.initContainers ?? [];
  const containers = [...starting, ...(pod.spec?.containers ?? [])];
  const isLongRunning = (at: number) => at >= starting.length || isRestartableInitContainer(containers[at]);
  const requests: Request[] = [];
  const longRunning: (Request | undefined)[] = [];
  const mappings: ContainerExtendedResourceRequest[] = [];
  for (const [at, container] of containers.entries()) {
    if (!isLongRunning(at)) continue;
    const own = requestOf(container, { at, resource, shared: [], deviceClassName });
    longRunning[at] = own.request;
    mappings.push(...own.mappings);
    if (own.request) requests.push(own.request);
  }
  const initRequests = containers.flatMap((container, at) =>
    isLongRunning(at) ? [] : [requestOf(container, { at, resource, shared: longRunning.slice(at), deviceClassName })],
  );
  const largest = initRequests.reduce<Request | undefined>(
    (best, { request }) => (request !== undefined && (best === undefined || request.exactly.count > best.exactly.count) ? request : best),
    undefined,
  );
  for (const { request, mappings: own } of initRequests)
    mappings.push(
      ...own.map((each) => (request && largest && each.requestName === request.name ? { ...each, requestName: largest.name } : each)),
    );
  return { requests: largest === undefined ? requests : [largest, ...requests], mappings };
}

interface Request extends DeviceRequest {
  readonly exactly: { readonly deviceClassName: string; readonly allocationMode: 'ExactCount'; readonly count: number };
}

/** Returns the request for the devices that a container requires in addition to `shared`, the devices of other containers that it can use. */
function requestOf(
  { name, resources }: Container,
  {
    at,
    resource,
    shared,
    deviceClassName,
  }: {
    readonly at: number;
    readonly resource: string;
    readonly shared: readonly (Request | undefined)[];
    readonly deviceClassName: string;
  },
): { readonly request?: Request; readonly mappings: readonly ContainerExtendedResourceRequest[] } {
  const amount = resources?.requests?.[resource];
  const count = amount === undefined ? 0 : quantityValue(amount);
  const mappings: ContainerExtendedResourceRequest[] = [];
  const use = (requestName: string) => mappings.push({ containerName: name, resourceName: resource, requestName });
  let left = count;
  for (const each of shared) {
    if (left <= 0) break;
    if (each === undefined) continue;
    use(each.name);
    left -= each.exactly.count;
  }
  if (left <= 0) return { mappings };
  const index = Object.keys(resources?.requests ?? {})
    .sort()
    .indexOf(resource);
  const request: Request = {
    name: `container-${at}-request-${index}`,
    exactly: { deviceClassName, allocationMode: 'ExactCount', count: left },
  };
  use(request.name);
  return { request, mappings };
}
