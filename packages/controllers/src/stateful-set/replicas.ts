import { scaledValue } from '@oarlock/api/int-or-string';
import type { ControllerRevision, StatefulSet, StatefulSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { availableIn, isTerminating } from '../pod-state.ts';
import { replicasOf, revisionOf, startOf } from './identity.ts';

export const isRunning = (pod: Pod): boolean => pod.status?.phase === 'Running';
export const isBurst = (set: StatefulSet): boolean => set.spec?.podManagementPolicy === 'Parallel';
export const partitionOf = (set: StatefulSet): number => set.spec?.updateStrategy?.rollingUpdate?.partition ?? 0;
export const isRolling = (set: StatefulSet): boolean => set.spec?.updateStrategy?.type !== 'OnDelete';

/** How long until a running pod is available: 0, later, or undefined while it is not ready. */
export const availability = (set: StatefulSet, pod: Pod, nowMs: number): number | undefined =>
  isRunning(pod) ? availableIn(pod, set.spec?.minReadySeconds ?? 0, nowMs) : undefined;
export const isAvailable = (set: StatefulSet, pod: Pod, nowMs: number): boolean => availability(set, pod, nowMs) === 0;
const isHealthy = (set: StatefulSet, pod: Pod, nowMs: number) => isAvailable(set, pod, nowMs) && !isTerminating(pod);

/** A pod that is made now is of the old revision while its ordinal is below what the rollout has come to. */
export function isOfOldRevision(set: StatefulSet, ordinal: number): boolean {
  if (!isRolling(set)) return false;
  const rolling = set.spec?.updateStrategy?.rollingUpdate;
  return ordinal < startOf(set) + (rolling === undefined ? (set.status?.currentReplicas ?? 0) : (rolling.partition ?? 0));
}

/** The pods a rolling update deletes now: the highest of the old revision, as many as may be unavailable. Those that serve nobody anyway go first. */
export function toUpdate(set: StatefulSet, replicas: readonly (Pod | undefined)[], update: string, nowMs: number): readonly Pod[] {
  const allowed = Math.max(1, scaledValue(set.spec?.updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, replicasOf(set), false));
  const outdated = replicas
    .slice(partitionOf(set)) // counted from the first place, whatever its ordinal
    .filter((pod) => pod !== undefined)
    .filter((pod) => revisionOf(pod) !== update && !isTerminating(pod))
    .reverse();
  const broken = outdated.filter((pod) => !isHealthy(set, pod, nowMs));
  const unavailable = replicas.filter((pod) => pod === undefined || !isHealthy(set, pod, nowMs)).length;
  const away = unavailable - broken.length;
  if (away >= allowed) return [];
  const first = broken.slice(0, allowed - away);
  const sound = outdated.filter((pod) => isHealthy(set, pod, nowMs)).slice(0, Math.max(0, allowed - unavailable));
  return [...first, ...sound];
}

/** What the pods amount to. */
export function countStatus(
  set: StatefulSet,
  pods: readonly Pod[],
  current: ControllerRevision,
  update: ControllerRevision,
  collisionCount: number | undefined,
  nowMs: number,
): StatefulSetStatus {
  const count = { ready: 0, available: 0, current: 0, updated: 0 };
  for (const pod of pods) {
    const inMs = availability(set, pod, nowMs);
    if (inMs !== undefined) count.ready += 1;
    if (inMs === 0) count.available += 1;
    if (isTerminating(pod)) continue;
    if (revisionOf(pod) === current.metadata?.name) count.current += 1;
    if (revisionOf(pod) === update.metadata?.name) count.updated += 1;
  }
  const status: StatefulSetStatus = {
    ...(set.status?.conditions && { conditions: set.status.conditions }),
    observedGeneration: set.metadata?.generation ?? 0,
    replicas: pods.length,
    readyReplicas: count.ready,
    availableReplicas: count.available,
    currentReplicas: count.current,
    updatedReplicas: count.updated,
    currentRevision: current.metadata?.name ?? '',
    updateRevision: update.metadata?.name ?? '',
    collisionCount: collisionCount ?? 0,
  };
  const wanted = replicasOf(set);
  const complete = isRolling(set) && status.updatedReplicas === wanted && status.readyReplicas === wanted && status.replicas === wanted;
  return complete ? { ...status, currentReplicas: count.updated, currentRevision: status.updateRevision ?? '' } : status;
}
