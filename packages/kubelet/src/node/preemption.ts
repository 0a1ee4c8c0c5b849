import { qosClass, type QosClass } from '@oarlock/api/pod-qos';
import { milliValue, value } from '@oarlock/api/quantity';
import type { Pod } from '@oarlock/api/types/core-v1';
import { podRequest } from '../resources.ts';
import { isCritical } from './eviction-order.ts';

/** How much of what a node has too little of for a pod: thousandths of a cpu, or whole units. */
export type Lack = ReadonlyMap<string, number>;

const amountOf = (pod: Pod, name: string) =>
  name === 'pods' ? 1 : name === 'cpu' ? milliValue(podRequest(pod, name)) : value(podRequest(pod, name));

/** Whether a pod may take the place of another. */
const precedes = (pod: Pod, other: Pod) =>
  (isCritical(pod) && !isCritical(other)) || (pod.spec?.priority ?? 0) > (other.spec?.priority ?? 0);

/** What still lacks when these pods have gone. */
export function remaining(lack: Lack, pods: readonly Pod[]): Lack {
  const left = new Map<string, number>();
  for (const [name, amount] of lack) {
    const rest = pods.reduce((sum, pod) => sum - amountOf(pod, name), amount);
    if (rest > 0) left.set(name, rest);
  }
  return left;
}

/** How far a pod is from giving all that lacks; 0: it gives all. */
const distance = (pod: Pod, lack: Lack) =>
  [...lack].reduce((sum, [name, amount]) => sum + (Math.max(0, amount - amountOf(pod, name)) / amount) ** 2, 0);
const smaller = (a: Pod, b: Pod) => amountOf(a, 'memory') - amountOf(b, 'memory') || amountOf(a, 'cpu') - amountOf(b, 'cpu');

/** The fewest pods that give what lacks, and of those the ones that are nearest to it. */
function nearest(pods: readonly Pod[], lack: Lack): readonly Pod[] {
  const left = [...pods];
  const chosen: Pod[] = [];
  for (let still = lack; still.size > 0 && left.length > 0; still = remaining(lack, chosen)) {
    left.sort((a, b) => distance(a, still) - distance(b, still) || smaller(a, b));
    chosen.push(...left.splice(0, 1));
  }
  return chosen;
}

/**
 * Which pods have to go so that a critical one fits: guaranteed ones only when the others do not give enough, then burstable ones, then best effort.
 * Undefined: all together would not be enough. https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
 */
export function toPreempt(pod: Pod, others: Iterable<Pod>, lack: Lack): readonly Pod[] | undefined {
  const byClass: Record<QosClass, Pod[]> = { BestEffort: [], Burstable: [], Guaranteed: [] };
  for (const other of others) if (precedes(pod, other)) byClass[qosClass(other.spec)].push(other);
  const { BestEffort: bestEffort, Burstable: burstable, Guaranteed: guaranteed } = byClass;
  if (remaining(lack, [...bestEffort, ...burstable, ...guaranteed]).size > 0) return undefined;
  const first = nearest(guaranteed, remaining(lack, [...bestEffort, ...burstable]));
  const second = nearest(burstable, remaining(lack, [...bestEffort, ...first]));
  const third = nearest(bestEffort, remaining(lack, [...second, ...first]));
  return [...third, ...second, ...first];
}
