import { parseTime } from '@oarlock/api/values/time';
import type { Pod, PodCondition } from '@oarlock/api/types/core-v1';

export const conditionOf = (pod: Pod, type: string): PodCondition | undefined =>
  pod.status?.conditions?.find((condition) => condition.type === type);
export const isReady = (pod: Pod): boolean => conditionOf(pod, 'Ready')?.status === 'True';
export const isTerminal = (pod: Pod): boolean => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
export const isTerminating = (pod: Pod): boolean => pod.metadata?.deletionTimestamp !== undefined;
/** Returns true if the pod is being deleted and has not terminated yet. */
export const isPodTerminating = (pod: Pod): boolean => isTerminating(pod) && !isTerminal(pod);
/** Returns true if the pod counts as a replica: it is neither terminal nor terminating. */
export const isActive = (pod: Pod): boolean => !isTerminal(pod) && !isTerminating(pod);

/** Returns the milliseconds until the pod has been ready for `minReadySeconds` (0 if it already has), or undefined if the pod is not ready. */
export function availableIn(pod: Pod, minReadySeconds: number, nowMs: number): number | undefined {
  const ready = conditionOf(pod, 'Ready');
  if (ready?.status !== 'True') return undefined;
  if (minReadySeconds === 0) return 0;
  const since = parseTime(ready.lastTransitionTime ?? '');
  return Math.max(0, (since ?? nowMs) + minReadySeconds * 1000 - nowMs);
}
