import { jsonEqual } from '@oarlock/api/json';
import { parseQuantity } from '@oarlock/api/quantity';
import type { Container, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import { isSidecar, statusesOf, statusOf } from './pods.ts';

/** What changes in place: cpu and memory, of containers and of pods as a whole (KEP-1287, KEP-5419). */
export const names = ['cpu', 'memory'] as const;
const parts = ['requests', 'limits'] as const;
export const none: ResourceRequirements = {};

function sameAmount(a: Quantity | undefined, b: Quantity | undefined): boolean {
  if (a === b) return true;
  return a !== undefined && b !== undefined && parseQuantity(a).compare(parseQuantity(b)) === 0;
}
/** Whether one of the amounts of this name is another. */
export const differs = (name: (typeof names)[number], a: ResourceRequirements, b: ResourceRequirements) =>
  parts.some((part) => !sameAmount(a[part]?.[name], b[part]?.[name]));
export const sameAmounts = (a: ResourceRequirements = none, b: ResourceRequirements = none) =>
  a === b || jsonEqual(a, b) || !names.some((name) => differs(name, a, b));

/** `resources` with the cpu and memory of `from`: all that changes in place. */
function withAmounts(resources: ResourceRequirements = none, from: ResourceRequirements): ResourceRequirements {
  const result: Record<string, unknown> = { ...resources };
  for (const part of parts) {
    const amounts: Record<string, Quantity> = { ...resources[part] };
    for (const name of names) {
      const amount = from[part]?.[name];
      if (amount === undefined) delete amounts[name];
      else amounts[name] = amount;
    }
    if (Object.keys(amounts).length === 0) delete result[part];
    else result[part] = amounts;
  }
  return result;
}

/** Containers that can be resized: the regular ones and sidecars. */
export function* resizable(pod: Pod): Generator<Container> {
  for (const container of pod.spec?.initContainers ?? []) if (isSidecar(container)) yield container;
  yield* pod.spec?.containers ?? [];
}

function withResources(
  pod: Pod,
  of: (container: Container) => ResourceRequirements | undefined,
  ofPod: ResourceRequirements | undefined,
): Pod {
  const replaced = new Map<string, Container>();
  for (const container of resizable(pod)) {
    const resources = of(container);
    if (resources !== undefined && !sameAmounts(container.resources, resources))
      replaced.set(container.name, { ...container, resources: withAmounts(container.resources, resources) });
  }
  if (pod.spec === undefined) return pod;
  const { containers, initContainers, resources } = pod.spec;
  const whole = ofPod !== undefined && !sameAmounts(resources, ofPod);
  if (replaced.size === 0 && !whole) return pod;
  const replace = (list: readonly Container[]) => list.map((container) => replaced.get(container.name) ?? container);
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: replace(containers),
      ...(initContainers && { initContainers: replace(initContainers) }),
      ...(whole && { resources: withAmounts(resources, ofPod) }),
    },
  };
}

/** The pod with what `held`, an earlier state of it, has been given. The pod itself when that is what it asks for. */
export function withResourcesOf(pod: Pod, held: Pod): Pod {
  const given = new Map([...resizable(held)].map(({ name, resources }) => [name, resources ?? none]));
  return withResources(pod, ({ name }) => given.get(name), held.spec?.resources);
}

/** The pod with what its status says that its containers have: what holds when a kubelet begins. */
export function withReportedResources(pod: Pod): Pod {
  if (pod.status?.containerStatuses === undefined) return pod;
  return withResources(
    pod,
    (container) => {
      const status = statusOf(statusesOf(pod.status, isSidecar(container) ? 'init' : 'regular'), container.name);
      return status?.containerID ? (status.resources ?? none) : undefined;
    },
    pod.spec?.resources && pod.status.resources,
  );
}

/** What limits a container: its own limits, and the pod's where it has none. */
export function boundsOf({ resources = none }: Container, ofPod: ResourceRequirements = none): ResourceRequirements {
  const limits: Record<string, Quantity> = { ...resources.limits };
  for (const name of names) {
    const limit = limits[name] ?? ofPod.limits?.[name];
    if (limit !== undefined) limits[name] = limit;
  }
  return { ...resources, limits };
}
