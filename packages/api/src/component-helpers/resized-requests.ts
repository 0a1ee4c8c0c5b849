import { milliValue } from '../values/quantity.ts';
import type { Quantity } from '../generated/types/meta-v1.ts';
import type { Container, ContainerStatus, Pod, ResourceRequirements } from '../generated/types/core-v1.ts';

type ResourceList = NonNullable<ResourceRequirements['requests']>;

const isInfeasible = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is, reason }) => type === 'PodResizePending' && is === 'True' && reason === 'Infeasible') ===
  true;

/** Effective requests of a pod during an in-place resize, where they differ from the spec. */
export interface ResizedRequests {
  /** Effective requests, keyed by container name. */
  readonly containers: ReadonlyMap<string, ResourceList>;
  /** Effective pod-level requests; absent if they equal the spec. */
  readonly pod?: ResourceList;
}

/**
 * Returns the effective requests of containers (KEP-1287) and of the pod (KEP-5419) during an in-place resize, where they differ from the spec: the
 * maximum of the requests in the spec, the allocated and the actual resources. If the resize is infeasible, the spec is not considered. Returns
 * undefined if the pod is not being resized.
 */
export function resizedRequests(pod: Pod): ResizedRequests | undefined {
  const { containerStatuses, initContainerStatuses, allocatedResources: podAllocated, resources: podActual } = pod.status ?? {};
  if (containerStatuses === undefined && initContainerStatuses === undefined) return undefined;
  const resized = new Map<string, ResourceList>();
  const effective = (requested: ResourceList, held: ResourceList) => (isInfeasible(pod) ? held : maxResources(requested, held));
  const addResized = (containers: readonly Container[] = [], statuses: readonly ContainerStatus[] = []) => {
    for (const { name, allocatedResources, resources } of statuses) {
      if (allocatedResources === undefined && resources?.requests === undefined) continue;
      const requested = containers.find((each) => each.name === name)?.resources?.requests ?? {};
      const held = maxResources(allocatedResources ?? {}, resources?.requests ?? {});
      if (isWithinRequests(requested, held)) continue;
      resized.set(name, effective(requested, held));
    }
  };
  addResized(pod.spec?.containers, containerStatuses);
  addResized(pod.spec?.initContainers, initContainerStatuses);
  const podRequested = pod.spec?.resources?.requests ?? {};
  const podHeld = maxResources(podAllocated ?? {}, podActual?.requests ?? {});
  if (!isWithinRequests(podRequested, podHeld)) return { containers: resized, pod: effective(podRequested, podHeld) };
  return resized.size === 0 ? undefined : { containers: resized };
}

/** Returns the pod with its effective requests in the spec. Returns the same object if the pod is not being resized. */
export function withResizedRequests(pod: Pod): Pod {
  const resized = resizedRequests(pod);
  if (resized === undefined || pod.spec === undefined) return pod;
  const { containers, initContainers, resources } = pod.spec;
  const withRequests = (container: Container): Container => {
    const requests = resized.containers.get(container.name);
    return requests === undefined ? container : { ...container, resources: { ...container.resources, requests } };
  };
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: containers.map(withRequests),
      ...(initContainers && { initContainers: initContainers.map(withRequests) }),
      ...(resized.pod && { resources: { ...resources, requests: resized.pod } }),
    },
  };
}

/** Returns true if every allocated or actual resource equals its request in the spec. */
const isWithinRequests = (requested: ResourceList, held: ResourceList): boolean =>
  Object.keys(held).every((name) => {
    const [a, b] = [requested[name], held[name]];
    return a === b || (a !== undefined && b !== undefined && milliValue(a) === milliValue(b));
  });

function maxResources(a: ResourceList, b: ResourceList): ResourceList {
  const all: Record<string, Quantity> = { ...a };
  for (const [name, amount] of Object.entries(b)) {
    const other = all[name];
    if (other === undefined || milliValue(amount) > milliValue(other)) all[name] = amount;
  }
  return all;
}
