import { milliValue } from '@oarlock/api/values/quantity';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import type { Container, ContainerStatus, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';

type ResourceList = NonNullable<ResourceRequirements['requests']>;

const isInfeasible = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is, reason }) => type === 'PodResizePending' && is === 'True' && reason === 'Infeasible') ===
  true;

/**
 * Returns the effective requests of containers, by name, that differ from their spec during an in-place resize (KEP-1287): the
 * maximum of the requests in the spec, the allocated and the actual resources; without the spec if the resize is infeasible.
 * Undefined if no container is being resized.
 */
export function resizedRequests(pod: Pod): ReadonlyMap<string, ResourceList> | undefined {
  const { containerStatuses, initContainerStatuses } = pod.status ?? {};
  if (containerStatuses === undefined && initContainerStatuses === undefined) return undefined;
  let resized: Map<string, ResourceList> | undefined;
  const addResized = (containers: readonly Container[] = [], statuses: readonly ContainerStatus[] = []) => {
    for (const { name, allocatedResources, resources } of statuses) {
      if (allocatedResources === undefined && resources?.requests === undefined) continue;
      const requested = containers.find((each) => each.name === name)?.resources?.requests ?? {};
      const held = maxResources(allocatedResources ?? {}, resources?.requests ?? {});
      if (isWithinRequests(requested, held)) continue;
      (resized ??= new Map()).set(name, isInfeasible(pod) ? held : maxResources(requested, held));
    }
  };
  addResized(pod.spec?.containers, containerStatuses);
  addResized(pod.spec?.initContainers, initContainerStatuses);
  return resized;
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
