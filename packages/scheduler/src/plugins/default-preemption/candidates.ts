import { own } from '@oarlock/api/json/json';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import {
  unschedulableAndUnresolvable,
  type PreemptionCandidate,
  type Status,
  type PodInfo,
  type NodeDryRun,
} from '@oarlock/spi/scheduling';
import { priorityOf } from '../../pod-info/pod-info.ts';

/** Returns the start time of a pod in milliseconds since the epoch; Infinity if no kubelet has started the pod yet, whatever its age. */
export const podStartTime = ({ pod }: PodInfo): number => {
  const time = pod.status?.startTime;
  return time === undefined || time === null ? Number.POSITIVE_INFINITY : Date.parse(time);
};
/** Compares pods: higher priority first, then earlier start time (MoreImportantPod upstream). */
const moreImportantPod = (a: PodInfo, b: PodInfo): number => {
  const byPriority = priorityOf(b) - priorityOf(a);
  if (byPriority !== 0) return byPriority;
  const [x, y] = [podStartTime(a), podStartTime(b)];
  return x === y ? 0 : x - y;
};

export type DisruptionBudgetLister = (namespace: string) => readonly PodDisruptionBudget[];

/**
 * Splits preemption units, each of which is evicted as a whole, into units whose eviction violates a PodDisruptionBudget and other units. Keeps the
 * order; earlier units use up the allowed disruptions first.
 */
export function splitByPDBViolation<T>(
  units: readonly T[],
  podsOf: (unit: T) => readonly PodInfo[],
  budgets: DisruptionBudgetLister,
): { readonly violating: readonly T[]; readonly free: readonly T[] } {
  const remainingByBudget = new Map<PodDisruptionBudget, number>();
  const violating: T[] = [];
  const free: T[] = [];
  for (const unit of units) {
    let violates = false;
    for (const { pod } of podsOf(unit)) if (violatesPDB(pod, budgets, remainingByBudget)) violates = true;
    (violates ? violating : free).push(unit);
  }
  return { violating, free };
}

/** Decrements the allowed disruptions of the pod's PodDisruptionBudgets in `remainingByBudget`. Returns true if one of them is exhausted. */
function violatesPDB({ metadata }: Pod, budgets: DisruptionBudgetLister, remainingByBudget: Map<PodDisruptionBudget, number>): boolean {
  const { namespace = '', name = '', labels } = metadata ?? {};
  if (labels === undefined || Object.keys(labels).length === 0) return false;
  let violates = false;
  for (const budget of budgets(namespace)) {
    const selector = selectorFromLabelSelector(budget.spec?.selector);
    // as upstream, an empty selector matches no pod here; a pod in disruptedPods has already been counted
    if (selector.empty || !selector.matches(labels) || own(budget.status?.disruptedPods, name) !== undefined) continue;
    const remaining = (remainingByBudget.get(budget) ?? budget.status?.disruptionsAllowed ?? 0) - 1;
    remainingByBudget.set(budget, remaining);
    if (remaining < 0) violates = true;
  }
  return violates;
}

/**
 * Returns the minimal set of lower-priority pods whose removal lets the pod fit, or a status if no removal helps. Removes all lower-priority pods,
 * then reprieves as many as possible: pods protected by a PodDisruptionBudget first, then more important pods first.
 */
export function selectVictimsOnNode(dryRun: NodeDryRun, pod: PodInfo, budgets: DisruptionBudgetLister): PreemptionCandidate | Status {
  const lowerPriorityPods = dryRun.node.pods.filter((other) => priorityOf(other) < priorityOf(pod)).sort(moreImportantPod);
  if (lowerPriorityPods.length === 0) return unschedulableAndUnresolvable('No preemption victims found for incoming pod');
  for (const each of lowerPriorityPods) dryRun.removePod(each);
  const rejection = dryRun.runFilters();
  if (rejection !== undefined) return rejection;
  const reprieve = (each: PodInfo): boolean => {
    dryRun.addPod(each);
    if (dryRun.runFilters() === undefined) return true;
    dryRun.removePod(each);
    return false;
  };
  const { violating, free } = splitByPDBViolation(lowerPriorityPods, (each) => [each], budgets);
  const violatingVictims = violating.filter((each) => !reprieve(each));
  const victims = [...violatingVictims, ...free.filter((each) => !reprieve(each))].sort(moreImportantPod);
  return { node: dryRun.node.name, victims, pdbViolations: violatingVictims.length };
}

const minCost = (
  candidates: readonly PreemptionCandidate[],
  cost: (candidate: PreemptionCandidate) => number,
): readonly PreemptionCandidate[] => {
  const costs = candidates.map(cost);
  const least = costs.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  return candidates.filter((_each, index) => costs[index] === least);
};
const highestVictimPriority = ({ victims: [first] }: PreemptionCandidate) =>
  first === undefined ? Number.NEGATIVE_INFINITY : priorityOf(first);
/** An offset that makes all priorities positive, so that the sum of priorities grows with the number of victims. */
const priorityOffset = 2 ** 31;

/**
 * Returns the candidate with the least cost by upstream's criteria, in this order: fewest PodDisruptionBudget violations, lowest priority of the
 * most important victim, smallest sum of priorities, fewest victims, latest start of the most important victims. Returns the first of equal
 * candidates; undefined if there are no candidates.
 */
export function pickOneNodeForPreemption(candidates: readonly PreemptionCandidate[]): PreemptionCandidate | undefined {
  const costs: readonly ((candidate: PreemptionCandidate) => number)[] = [
    ({ pdbViolations }) => pdbViolations,
    highestVictimPriority,
    ({ victims }) => victims.reduce((sum, victim) => sum + priorityOf(victim) + priorityOffset, 0),
    ({ victims }) => victims.length,
    (candidate) =>
      -candidate.victims
        .filter((victim) => priorityOf(victim) === highestVictimPriority(candidate))
        .reduce((a, b) => Math.min(a, podStartTime(b)), Number.POSITIVE_INFINITY),
  ];
  let remaining = candidates;
  for (const cost of costs) {
    if (remaining.length <= 1) break;
    remaining = minCost(remaining, cost);
  }
  return remaining[0];
}
