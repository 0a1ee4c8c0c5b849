import type { Container, ContainerExtendedResourceRequest, Pod } from '@oarlock/api/types/core-v1';
import type { DeviceClass, DeviceRequest, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { value } from '@oarlock/api/quantity';
import type { Informer } from '@oarlock/spi/client';
import type { Amounts, NodeInfo } from '@oarlock/spi/scheduling';

const implicitPrefix = 'deviceclass.resource.kubernetes.io/';
const annotation = 'resource.kubernetes.io/extended-resource-claim';

/** Which class of devices stands for an extended resource (KEP-5004): the youngest that names it, or the one it is named after. */
export class ExtendedResources {
  readonly #classes: Informer<DeviceClass>;
  #byResource: ReadonlyMap<string, DeviceClass> | undefined;

  constructor(classes: Informer<DeviceClass>) {
    this.#classes = classes;
    const outdated = () => {
      this.#byResource = undefined;
    };
    classes.on({ added: outdated, updated: outdated, deleted: outdated });
  }

  classOf(resource: string): string | undefined {
    this.#byResource ??= byResource(this.#classes.list());
    return this.#byResource.get(resource)?.metadata?.name;
  }

  /** What of it a node has to provide by devices: it has no device plugin for it. */
  isDelegated(resource: string, { allocatable }: Pick<NodeInfo, 'allocatable'>): boolean {
    return (allocatable.scalar.get(resource) ?? 0) === 0 && this.classOf(resource) !== undefined;
  }

  /** Those that a pod asks for and that a class stands for, in order. */
  of({ scalar }: Amounts): readonly string[] {
    return [...scalar].flatMap(([name, amount]) => (amount > 0 && this.classOf(name) !== undefined ? [name] : [])).sort();
  }
}

const bornAt = ({ metadata }: DeviceClass) => Date.parse(metadata?.creationTimestamp ?? '') || 0;

function byResource(classes: readonly DeviceClass[]): ReadonlyMap<string, DeviceClass> {
  const found = new Map<string, DeviceClass>();
  for (const each of classes) {
    found.set(`${implicitPrefix}${each.metadata?.name}`, each);
    const { extendedResourceName: name } = each.spec;
    if (name === undefined) continue;
    const other = found.get(name);
    const younger = other === undefined ? 1 : bornAt(each) - bornAt(other);
    if (younger > 0 || (younger === 0 && (each.metadata?.name ?? '') < (other?.metadata?.name ?? ''))) found.set(name, each);
  }
  return found;
}

/** The claim for the extended resources of a pod, as some nodes have to fulfil it. */
export interface ExtendedClaim {
  readonly claim: ResourceClaim;
  /** Which request of the claim is for which resource of which container. */
  readonly mappings: readonly ContainerExtendedResourceRequest[];
}

/** A claim that is in memory only: it gets its name when it is written. */
export function extendedClaim(pod: Pod, names: readonly string[], classOf: (name: string) => string | undefined): ExtendedClaim {
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

export const isExtendedClaim = ({ metadata }: ResourceClaim): boolean => metadata?.annotations?.[annotation] === 'true';

/** Such a claim as it is sent to the server, which completes the name. */
export function unnamed(claim: ResourceClaim, { metadata }: Pod): ResourceClaim {
  const { name: _inMemory, ...rest } = claim.metadata ?? {};
  return { ...claim, metadata: { ...rest, generateName: `${metadata?.name}-extended-resources-` } };
}

/**
 * A request for each container that stays, and one for those that run before: they may have what later containers will have, one after
 * the other, and only what the greediest of them needs besides is asked for.
 */
function requestsFor(pod: Pod, resource: string, deviceClassName: string) {
  const starting = pod.spec?.initContainers ?? [];
  const containers = [...starting, ...(pod.spec?.containers ?? [])];
  const stays = (at: number) => at >= starting.length || containers[at]?.restartPolicy === 'Always';
  const requests: Request[] = [];
  const lasting: (Request | undefined)[] = [];
  const mappings: ContainerExtendedResourceRequest[] = [];
  for (const [at, container] of containers.entries()) {
    if (!stays(at)) continue;
    const own = ask(container, at, resource, [], deviceClassName);
    lasting[at] = own.request;
    mappings.push(...own.mappings);
    if (own.request) requests.push(own.request);
  }
  const passing = containers.flatMap((container, at) =>
    stays(at) ? [] : [ask(container, at, resource, lasting.slice(at), deviceClassName)],
  );
  const most = passing.reduce<Request | undefined>(
    (best, { request }) => (request !== undefined && (best === undefined || request.exactly.count > best.exactly.count) ? request : best),
    undefined,
  );
  for (const { request, mappings: own } of passing)
    mappings.push(
      ...own.map((each) => (request && most && each.requestName === request.name ? { ...each, requestName: most.name } : each)),
    );
  return { requests: most === undefined ? requests : [most, ...requests], mappings };
}

interface Request extends DeviceRequest {
  readonly exactly: { readonly deviceClassName: string; readonly allocationMode: 'ExactCount'; readonly count: number };
}

/** What a container needs besides the devices of `shared`, which it may use. */
function ask(
  { name, resources }: Container,
  at: number,
  resource: string,
  shared: readonly (Request | undefined)[],
  deviceClassName: string,
): { readonly request?: Request; readonly mappings: readonly ContainerExtendedResourceRequest[] } {
  const amount = resources?.requests?.[resource];
  const count = amount === undefined ? 0 : value(amount);
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
