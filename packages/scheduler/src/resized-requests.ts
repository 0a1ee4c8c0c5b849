import { milliValue } from '@oarlock/api/quantity';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import type { Container, ContainerStatus, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';

type List = NonNullable<ResourceRequirements['requests']>;

const isInfeasible = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is, reason }) => type === 'PodResizePending' && is === 'True' && reason === 'Infeasible') ===
  true;

/**
 * What containers hold, by name, where that is not what their spec asks for: while a pod is resized in place (KEP-1287) a container counts with the most of
 * what it asks for, was allocated and has; what a node will never grant does not count. Undefined for nearly all pods.
 */
export function resizedRequests(pod: Pod): ReadonlyMap<string, List> | undefined {
  const { containerStatuses, initContainerStatuses } = pod.status ?? {};
  if (containerStatuses === undefined && initContainerStatuses === undefined) return undefined;
  let resized: Map<string, List> | undefined;
  const look = (containers: readonly Container[] = [], statuses: readonly ContainerStatus[] = []) => {
    for (const { name, allocatedResources, resources } of statuses) {
      if (allocatedResources === undefined && resources?.requests === undefined) continue;
      const asked = containers.find((each) => each.name === name)?.resources?.requests ?? {};
      const held = most(allocatedResources ?? {}, resources?.requests ?? {});
      if (agree(asked, held)) continue;
      (resized ??= new Map()).set(name, isInfeasible(pod) ? held : most(asked, held));
    }
  };
  look(pod.spec?.containers, containerStatuses);
  look(pod.spec?.initContainers, initContainerStatuses);
  return resized;
}

/** Kubelets say of all that was asked for how much of it there is. */
const agree = (asked: List, held: List): boolean =>
  Object.keys(held).every((name) => {
    const [a, b] = [asked[name], held[name]];
    return a === b || (a !== undefined && b !== undefined && milliValue(a) === milliValue(b));
  });

function most(a: List, b: List): List {
  const all: Record<string, Quantity> = { ...a };
  for (const [name, amount] of Object.entries(b)) {
    const other = all[name];
    if (other === undefined || milliValue(amount) > milliValue(other)) all[name] = amount;
  }
  return all;
}
