import type { PodSpec, ResourceRequirements } from '../generated/types/core-v1.ts';
import { addQuantity, compareQuantity, zeroQuantity, type ParsedQuantity } from '../values/quantity.ts';

const qosResources = ['cpu', 'memory'] as const;
type Sums = Map<string, ParsedQuantity>;
export type QosClass = 'Guaranteed' | 'Burstable' | 'BestEffort';

/**
 * Returns the quality of service class of a pod, which is set on create and immutable. A limit without a request counts as the request, for static
 * pods without defaults. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export function qosClass(spec: Pick<PodSpec, 'containers' | 'initContainers' | 'resources'> = { containers: [] }): QosClass {
  const requests: Sums = new Map();
  const limits: Sums = new Map();
  let guaranteed = true;
  const podLevel = spec.resources !== undefined && (hasSome(spec.resources.requests) || hasSome(spec.resources.limits));
  const all: readonly (ResourceRequirements | undefined)[] = podLevel
    ? [spec.resources]
    : [...spec.containers, ...(spec.initContainers ?? [])].map(({ resources }) => resources);
  for (const resources of all) {
    add(requests, { ...resources?.limits, ...resources?.requests });
    if (add(limits, resources?.limits) < qosResources.length) guaranteed = false;
  }
  if (requests.size === 0 && limits.size === 0) return 'BestEffort';
  if (!guaranteed) return 'Burstable';
  const same =
    requests.size === limits.size &&
    [...requests].every(([name, amount]) => {
      const limit = limits.get(name);
      return limit !== undefined && compareQuantity(limit, amount) === 0;
    });
  return same ? 'Guaranteed' : 'Burstable';
}

function hasSome(list: ResourceRequirements['requests']): boolean {
  return list !== undefined && qosResources.some((name) => list[name] !== undefined);
}

/** Adds the non-zero quantities of the list to the sums; returns the number of resources with one. */
function add(sums: Sums, list: ResourceRequirements['requests']): number {
  let some = 0;
  for (const name of qosResources) {
    const quantity = list?.[name];
    if (quantity === undefined || compareQuantity(quantity, zeroQuantity) <= 0) continue;
    sums.set(name, addQuantity(sums.get(name) ?? zeroQuantity, quantity));
    some++;
  }
  return some;
}
