import { qosClass, type QosClass } from '@oarlock/api/component-helpers/qos-class';
import { milliValue, quantityValue } from '@oarlock/api/values/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { podRequest } from '../pod-util/resources.ts';
import { isCriticalPod } from '../pod-util/pods.ts';

/** The missing quantity of each insufficient resource: millicores of CPU, whole units of any other resource. */
export type InsufficientResources = ReadonlyMap<string, number>;

const amountOf = (pod: Pod, name: string) =>
  name === 'pods' ? 1 : name === 'cpu' ? milliValue(podRequest(pod, name)) : quantityValue(podRequest(pod, name));

/** Returns true if `pod` may preempt `other` on this node. */
const precedes = (pod: Pod, other: Pod) =>
  (isCriticalPod(pod) && !isCriticalPod(other)) || (pod.spec?.priority ?? 0) > (other.spec?.priority ?? 0);

/** Returns the quantities that are still insufficient after the given pods are removed. */
export function subtractRequests(insufficient: InsufficientResources, pods: readonly Pod[]): InsufficientResources {
  const left = new Map<string, number>();
  for (const [name, amount] of insufficient) {
    const rest = pods.reduce((sum, pod) => sum - amountOf(pod, name), amount);
    if (rest > 0) left.set(name, rest);
  }
  return left;
}

/** Returns how far the pod's requests are from covering all insufficient resources; 0 if the requests cover all (distance upstream). */
const distanceToRequirements = (pod: Pod, insufficient: InsufficientResources) =>
  [...insufficient].reduce((sum, [name, amount]) => sum + (Math.max(0, amount - amountOf(pod, name)) / amount) ** 2, 0);
const smaller = (a: Pod, b: Pod) => amountOf(a, 'memory') - amountOf(b, 'memory') || amountOf(a, 'cpu') - amountOf(b, 'cpu');

/** Returns the fewest pods that free the insufficient resources, preferring the closest match (getPodsToPreemptByDistance upstream). */
function nearest(pods: readonly Pod[], insufficient: InsufficientResources): readonly Pod[] {
  const left = [...pods];
  const chosen: Pod[] = [];
  for (let still = insufficient; still.size > 0 && left.length > 0; still = subtractRequests(insufficient, chosen)) {
    left.sort((a, b) => distanceToRequirements(a, still) - distanceToRequirements(b, still) || smaller(a, b));
    chosen.push(...left.splice(0, 1));
  }
  return chosen;
}

/**
 * Selects the pods to preempt for a critical pod: BestEffort pods before Burstable pods before Guaranteed pods. Returns undefined if
 * preempting all of them would not free enough.
 * https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
 */
export function selectPodsToPreempt(pod: Pod, others: Iterable<Pod>, insufficient: InsufficientResources): readonly Pod[] | undefined {
  const byClass: Record<QosClass, Pod[]> = { BestEffort: [], Burstable: [], Guaranteed: [] };
  for (const other of others) if (precedes(pod, other)) byClass[qosClass(other.spec)].push(other);
  const { BestEffort: bestEffort, Burstable: burstable, Guaranteed: guaranteed } = byClass;
  if (subtractRequests(insufficient, [...bestEffort, ...burstable, ...guaranteed]).size > 0) return undefined;
  const first = nearest(guaranteed, subtractRequests(insufficient, [...bestEffort, ...burstable]));
  const second = nearest(burstable, subtractRequests(insufficient, [...bestEffort, ...first]));
  const third = nearest(bestEffort, subtractRequests(insufficient, [...second, ...first]));
  return [...third, ...second, ...first];
}
