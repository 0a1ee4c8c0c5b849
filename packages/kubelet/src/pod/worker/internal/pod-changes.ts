import { jsonEqual } from '@oarlock/api/json/json';
import type { Pod } from '@oarlock/api/types/core-v1';

/** The parts of a pod that an update changed. Most updates contain only the kubelet's own status and change none of these parts. */
export interface PodChange {
  /** True if the spec changed: containers may have to be started or replaced. */
  readonly spec: boolean;
  /** True if labels or annotations changed, which downward API volumes may contain. */
  readonly metadata: boolean;
  /** True if the conditions of the pod's readiness gates changed. */
  readonly readinessGates: boolean;
}

export function comparePods(old: Pod, now: Pod): PodChange {
  const generations = [old.metadata?.generation, now.metadata?.generation];
  // a status update does not change the generation; servers without generations need a comparison
  const spec =
    generations[0] !== undefined && generations[1] !== undefined ? generations[0] !== generations[1] : !jsonEqual(old.spec, now.spec);
  const metadata =
    !jsonEqual(old.metadata?.labels, now.metadata?.labels) || !jsonEqual(old.metadata?.annotations, now.metadata?.annotations);
  const gates = (now.spec?.readinessGates ?? []).some(
    ({ conditionType }) => conditionOf(old, conditionType) !== conditionOf(now, conditionType),
  );
  return { spec, metadata, readinessGates: gates };
}

const conditionOf = (pod: Pod, type: string) => pod.status?.conditions?.find((condition) => condition.type === type)?.status;
