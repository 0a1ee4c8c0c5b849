import { jsonEqual } from '@oarlock/api/json/json';
import type { Pod } from '@oarlock/api/types/core-v1';

/** The parts of a pod that an update changed. Most updates are the kubelet's own status and change none of them. */
export interface PodChange {
  /** Containers may have to be started or replaced. */
  readonly spec: boolean;
  /** Labels or annotations: downward API volumes may show them. */
  readonly metadata: boolean;
  /** The conditions that the pod's readiness gates name. */
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
