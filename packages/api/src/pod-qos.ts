import type { PodSpec, ResourceRequirements } from './generated/types/core-v1.ts';
import { addQuantity, compareQuantity, zero, type Amount } from './quantity.ts';

const counted = ['cpu', 'memory'] as const;
type Sums = Map<string, Amount>;
export type QosClass = 'Guaranteed' | 'Burstable' | 'BestEffort';

/**
 * The quality of service class, which is set once, when a pod is created. A limit without a request is one, as of static pods, which nobody gave
 * their defaults. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
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
    if (add(limits, resources?.limits) < counted.length) guaranteed = false;
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
  return list !== undefined && counted.some((name) => list[name] !== undefined);
}

/** Adds what is more than nothing; returns of how many resources there was some. */
function add(sums: Sums, list: ResourceRequirements['requests']): number {
  let some = 0;
  for (const name of counted) {
    const quantity = list?.[name];
    if (quantity === undefined || compareQuantity(quantity, zero) <= 0) continue;
    sums.set(name, addQuantity(sums.get(name) ?? zero, quantity));
    some++;
  }
  return some;
}
