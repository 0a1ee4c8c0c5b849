import { selectorFromObject } from '@oarlock/api/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { unresolvable, type Eviction, type Outcome, type PodInfo, type Trial } from '@oarlock/spi/scheduling';
import { priorityOf } from '../nominations.ts';

export const startOf = ({ pod }: PodInfo): number => {
  const at = pod.status?.startTime ?? pod.metadata?.creationTimestamp;
  return at === undefined || at === null ? Number.POSITIVE_INFINITY : Date.parse(at);
};
/** Higher priority first, then who runs longer. */
const byImportance = (a: PodInfo, b: PodInfo): number => {
  const byPriority = priorityOf(b) - priorityOf(a);
  if (byPriority !== 0) return byPriority;
  const [x, y] = [startOf(a), startOf(b)];
  return x === y ? 0 : x - y;
};

export type Budgets = (namespace: string) => readonly PodDisruptionBudget[];

/** Parts what is lost together, in order, into that whose loss a budget does not allow any more and the rest. */
export function byBudget<T>(
  units: readonly T[],
  podsOf: (unit: T) => readonly PodInfo[],
  budgets: Budgets,
): { readonly violating: readonly T[]; readonly free: readonly T[] } {
  const left = new Map<PodDisruptionBudget, number>();
  const violating: T[] = [];
  const free: T[] = [];
  for (const unit of units) {
    let violates = false;
    for (const { pod } of podsOf(unit)) if (breaksBudget(pod, budgets, left)) violates = true;
    (violates ? violating : free).push(unit);
  }
  return { violating, free };
}

/** Counts the loss of a pod against what its budgets have `left`. */
function breaksBudget({ metadata }: Pod, budgets: Budgets, left: Map<PodDisruptionBudget, number>): boolean {
  const { namespace = '', name = '', labels } = metadata ?? {};
  if (labels === undefined || Object.keys(labels).length === 0) return false;
  let breaks = false;
  for (const budget of budgets(namespace)) {
    const selector = selectorFromObject(budget.spec?.selector);
    // one that selects everything protects nothing here, and who is on its way out already is counted
    if (selector.empty || !selector.matches(labels) || budget.status?.disruptedPods?.[name] !== undefined) continue;
    const remaining = (left.get(budget) ?? budget.status?.disruptionsAllowed ?? 0) - 1;
    left.set(budget, remaining);
    if (remaining < 0) breaks = true;
  }
  return breaks;
}

/** The fewest pods of less priority without which the pod fits; or why that would not help. */
export function selectVictims(trial: Trial, pod: PodInfo, budgets: Budgets): Eviction | Outcome {
  const lower = trial.node.pods.filter((other) => priorityOf(other) < priorityOf(pod)).sort(byImportance);
  if (lower.length === 0) return unresolvable('No preemption victims found for incoming pod');
  for (const each of lower) trial.remove(each);
  const refused = trial.refusal();
  if (refused !== undefined) return refused;
  const spare = (each: PodInfo): boolean => {
    trial.add(each);
    if (trial.refusal() === undefined) return true;
    trial.remove(each);
    return false;
  };
  const { violating, free } = byBudget(lower, (each) => [each], budgets);
  const doomed = violating.filter((each) => !spare(each));
  const victims = [...doomed, ...free.filter((each) => !spare(each))].sort(byImportance);
  return { node: trial.node.name, victims, violations: doomed.length };
}

const fewest = (candidates: readonly Eviction[], cost: (candidate: Eviction) => number): readonly Eviction[] => {
  const costs = candidates.map(cost);
  const least = costs.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  return candidates.filter((_each, index) => costs[index] === least);
};
const highest = ({ victims: [first] }: Eviction) => (first === undefined ? Number.NEGATIVE_INFINITY : priorityOf(first));
/** Makes priorities positive, so that a sum grows with the number of victims. */
const offset = 2 ** 31;

/**
 * Where preemption hurts least: fewest budgets broken, then the least important first victim, the smallest sum of priorities, the
 * fewest victims, the most important ones started last; then the first.
 */
export function leastHarm(candidates: readonly Eviction[]): Eviction | undefined {
  const costs: readonly ((candidate: Eviction) => number)[] = [
    ({ violations }) => violations,
    highest,
    ({ victims }) => victims.reduce((sum, victim) => sum + priorityOf(victim) + offset, 0),
    ({ victims }) => victims.length,
    (candidate) =>
      -candidate.victims
        .filter((victim) => priorityOf(victim) === highest(candidate))
        .reduce((a, b) => Math.min(a, startOf(b)), Number.POSITIVE_INFINITY),
  ];
  let left = candidates;
  for (const cost of costs) {
    if (left.length <= 1) break;
    left = fewest(left, cost);
  }
  return left[0];
}
