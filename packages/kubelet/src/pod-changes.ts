import { jsonEqual } from '@oarlock/api/json';
import type { Pod } from '@oarlock/api/types/core-v1';

/** What an update of a pod means to its kubelet. Most updates are its own status coming back, and mean nothing. */
export interface PodChange {
  /** The spec: containers may have to be started or replaced. */
  readonly spec: boolean;
  /** Labels or annotations: volumes may show them. */
  readonly metadata: boolean;
  /** Conditions that readiness gates look at. */
  readonly gates: boolean;
}

export function compare(old: Pod, now: Pod): PodChange {
  const generations = [old.metadata?.generation, now.metadata?.generation];
  // a status update does not change the generation; servers that count none are compared with
  const spec =
    generations[0] !== undefined && generations[1] !== undefined ? generations[0] !== generations[1] : !jsonEqual(old.spec, now.spec);
  const metadata =
    !jsonEqual(old.metadata?.labels, now.metadata?.labels) || !jsonEqual(old.metadata?.annotations, now.metadata?.annotations);
  const gates = (now.spec?.readinessGates ?? []).some(
    ({ conditionType }) => conditionOf(old, conditionType) !== conditionOf(now, conditionType),
  );
  return { spec, metadata, gates };
}

const conditionOf = (pod: Pod, type: string) => pod.status?.conditions?.find((condition) => condition.type === type)?.status;
