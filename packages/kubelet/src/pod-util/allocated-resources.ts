import { jsonEqual } from '@oarlock/api/json/json';
import { parseQuantity } from '@oarlock/api/values/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import { containerStatusFinder } from './pods.ts';

/** The resources of containers and pods that can be resized in place (KEP-1287, KEP-5419). */
export const resizableResources = ['cpu', 'memory'] as const;
const parts = ['requests', 'limits'] as const;
export const noResources: ResourceRequirements = {};

function sameQuantity(a: Quantity | undefined, b: Quantity | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && parseQuantity(a).compare(parseQuantity(b)) === 0;
}
/** Returns true if the request or the limit of the named resource differs. */
export const resourceDiffers = (name: (typeof resizableResources)[number], a: ResourceRequirements, b: ResourceRequirements) =>
  parts.some((part) => !sameQuantity(a[part]?.[name], b[part]?.[name]));
export const sameResources = (a: ResourceRequirements = noResources, b: ResourceRequirements = noResources) =>
  a === b || jsonEqual(a, b) || !resizableResources.some((name) => resourceDiffers(name, a, b));

/** Returns `resources`, with the resizable resources replaced by those of `from`. */
function withResizableResources(resources: ResourceRequirements = noResources, from: ResourceRequirements): ResourceRequirements {
  const result: Record<string, unknown> = { ...resources };
  for (const part of parts) {
    const amounts: Record<string, Quantity> = { ...resources[part] };
    for (const name of resizableResources) {
      const amount = from[part]?.[name];
      if (amount === undefined) delete amounts[name];
      else amounts[name] = amount;
    }
    if (Object.keys(amounts).length === 0) delete result[part];
    else result[part] = amounts;
  }
  return result;
}

/** Yields the containers that can be resized: init containers, with sidecars, and regular containers. */
export function* resizableContainers(pod: Pod): Generator<Container> {
  yield* pod.spec?.initContainers ?? [];
  yield* pod.spec?.containers ?? [];
}

function withResources(
  pod: Pod,
  of: (container: Container) => ResourceRequirements | undefined,
  ofPod: ResourceRequirements | undefined,
): Pod {
  const replaced = new Map<string, Container>();
  for (const container of resizableContainers(pod)) {
    const resources = of(container);
    if (resources !== undefined && !sameResources(container.resources, resources))
      replaced.set(container.name, { ...container, resources: withResizableResources(container.resources, resources) });
  }
  if (pod.spec === undefined) return pod;
  const { containers, initContainers, resources } = pod.spec;
  const whole = ofPod !== undefined && !sameResources(resources, ofPod);
  if (replaced.size === 0 && !whole) return pod;
  const replace = (list: readonly Container[]) => list.map((container) => replaced.get(container.name) ?? container);
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: replace(containers),
      ...(initContainers && { initContainers: replace(initContainers) }),
      ...(whole && { resources: withResizableResources(resources, ofPod) }),
    },
  };
}

/** Returns the pod with the resources that are allocated in `earlier`, an earlier version of the pod; the same object if no resource differs. */
export function withAllocatedResources(pod: Pod, earlier: Pod): Pod {
  const allocated = new Map([...resizableContainers(earlier)].map(({ name, resources }) => [name, resources ?? noResources]));
  return withResources(pod, ({ name }) => allocated.get(name), earlier.spec?.resources);
}

/** Returns the pod with the resources that its status reports, which are the allocated resources when a kubelet starts. */
export function withReportedResources(pod: Pod): Pod {
  if (pod.status?.containerStatuses === undefined) return pod;
  const { containerStatuses, initContainerStatuses = [] } = pod.status;
  const statusOf = containerStatusFinder([...initContainerStatuses, ...containerStatuses]);
  return withResources(
    pod,
    (container) => {
      const status = statusOf(container.name);
      return status?.containerID ? (status.resources ?? noResources) : undefined;
    },
    pod.spec?.resources && pod.status.resources,
  );
}

/** Returns the resources that limit a container: the container's own, or else the pod-level resources. */
export function effectiveResources(
  { resources = noResources }: Container,
  ofPod: ResourceRequirements = noResources,
): ResourceRequirements {
  const limits: Record<string, Quantity> = { ...resources.limits };
  for (const name of resizableResources) {
    const limit = limits[name] ?? ofPod.limits?.[name];
    if (limit !== undefined) limits[name] = limit;
  }
  return { ...resources, limits };
}
