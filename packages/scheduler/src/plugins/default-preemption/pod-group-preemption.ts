import type { PodInfo, PodGroupPreemption, PodGroupDryRun } from '@oarlock/spi/scheduling';
import { unschedulableAndUnresolvable, unschedulable, type Status } from '@oarlock/spi/scheduling';
import { priorityOf } from '../../pod-info/pod-info.ts';
import { splitByPDBViolation, podStartTime, type DisruptionBudgetLister } from './candidates.ts';

/** Pods that are preempted together: one pod, or all pods of a pod group. */
interface PreemptionUnit {
  readonly priority: number;
  readonly isPodGroup: boolean;
  readonly pods: PodInfo[];
}

/** The pods to preempt for a pod group, most important first, and the node of each member after the preemption. */
export interface PodGroupPreemptionResult {
  readonly victims: readonly PodInfo[];
  readonly nominatedNodeNames: ReadonlyMap<string, string>;
}

const earliestStartTime = ({ pods }: PreemptionUnit) =>
  pods.reduce((least, pod) => Math.min(least, podStartTime(pod)), Number.POSITIVE_INFINITY);

/** Compares preemption units: higher priority first, pod groups before single pods, larger groups first, then earlier start time (KEP-5710). */
const moreImportantUnit = (a: PreemptionUnit, b: PreemptionUnit): number => {
  if (a.priority !== b.priority) return b.priority - a.priority;
  if (a.isPodGroup !== b.isPodGroup) return a.isPodGroup ? -1 : 1;
  if (a.isPodGroup && a.pods.length !== b.pods.length) return b.pods.length - a.pods.length;
  const [x, y] = [earliestStartTime(a), earliestStartTime(b)];
  return x === y ? 0 : x - y;
};

function preemptionUnits({ snapshot }: PodGroupDryRun, { priority, podGroupOf }: PodGroupPreemption): readonly PreemptionUnit[] {
  const singles: PreemptionUnit[] = [];
  const podGroups = new Map<string, PreemptionUnit>();
  for (const { pods } of snapshot.nodes)
    for (const pod of pods) {
      const podGroup = podGroupOf(pod.pod);
      // the priority of a pod group replaces that of its pods
      const unitPriority = podGroup?.priority ?? priorityOf(pod);
      if (unitPriority >= priority) continue;
      if (podGroup?.preemptTogether !== true) {
        singles.push({ priority: unitPriority, isPodGroup: false, pods: [pod] });
        continue;
      }
      const unit = podGroups.get(podGroup.key);
      if (unit === undefined) podGroups.set(podGroup.key, { priority: unitPriority, isPodGroup: true, pods: [pod] });
      else unit.pods.push(pod);
    }
  return [...podGroups.values(), ...singles].sort(moreImportantUnit);
}

/**
 * Returns a minimal set of victims with which the pod group fits, or a status if preemption does not help.
 *
 * Removes all units of lower priority, then reprieves as many as possible without reducing the number of members that fit: units
 * protected by a budget first, more important units first. Units are reprieved by bisection, because usually few are victims and
 * each attempt schedules the whole group.
 */
export async function selectPodGroupVictims(
  preemption: PodGroupPreemption,
  dryRun: PodGroupDryRun,
  budgets: DisruptionBudgetLister,
): Promise<PodGroupPreemptionResult | Status> {
  const units = preemptionUnits(dryRun, preemption);
  if (units.length === 0) return unschedulableAndUnresolvable('No preemption victims found for incoming preemptor');
  for (const { pods } of units) for (const pod of pods) dryRun.removePod(pod);
  let nominatedNodeNames = await dryRun.scheduleMembers();
  if (nominatedNodeNames === undefined) return unschedulable('Preemption is not helpful for scheduling');
  /** Restores as many units as possible. Returns the units that cannot be restored, which become victims. */
  const reprieve = async (candidates: readonly PreemptionUnit[]): Promise<readonly PreemptionUnit[]> => {
    if (candidates.length === 0) return [];
    for (const { pods } of candidates) for (const pod of pods) dryRun.restorePod(pod);
    const found = await dryRun.scheduleMembers();
    if (found !== undefined && found.size >= (nominatedNodeNames?.size ?? 0)) {
      nominatedNodeNames = found;
      return [];
    }
    for (const { pods } of candidates) for (const pod of pods) dryRun.removePod(pod);
    if (candidates.length === 1) return candidates;
    const half = Math.ceil(candidates.length / 2);
    return [...(await reprieve(candidates.slice(0, half))), ...(await reprieve(candidates.slice(half)))];
  };
  const { violating, free } = splitByPDBViolation(units, ({ pods }) => pods, budgets);
  const victims = [...(await reprieve(violating)), ...(await reprieve(free))].sort(moreImportantUnit);
  return { victims: victims.flatMap(({ pods }) => pods), nominatedNodeNames };
}
