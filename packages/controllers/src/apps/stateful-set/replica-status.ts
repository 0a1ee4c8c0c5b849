import type { ControllerRevision, StatefulSet, StatefulSetStatus } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { availableIn, isTerminating } from '../../pods/pod-state.ts';
import { replicasOf, revisionOf, startOrdinal } from './pod-identity.ts';

export const isRunning = (pod: Pod): boolean => pod.status?.phase === 'Running';
export const allowsBurst = (set: StatefulSet): boolean => set.spec?.podManagementPolicy === 'Parallel';
export const partitionOf = (set: StatefulSet): number => set.spec?.updateStrategy?.rollingUpdate?.partition ?? 0;
export const isRolling = (set: StatefulSet): boolean => set.spec?.updateStrategy?.type !== 'OnDelete';

/** Returns the milliseconds until a running pod is available (0 if it is available now), or undefined if the pod is not ready. */
export const availabilityOf = (set: StatefulSet, pod: Pod, nowMs: number): number | undefined =>
  isRunning(pod) ? availableIn(pod, set.spec?.minReadySeconds ?? 0, nowMs) : undefined;
export const isAvailable = (set: StatefulSet, pod: Pod, nowMs: number): boolean => availabilityOf(set, pod, nowMs) === 0;
const isHealthy = (set: StatefulSet, pod: Pod, nowMs: number) => isAvailable(set, pod, nowMs) && !isTerminating(pod);

/**
 * Returns true if a new pod with this ordinal gets the current revision instead of the update revision: the ordinal is below the partition or,
 * without rollingUpdate parameters, below the ordinals that `status.currentReplicas` counts.
 */
export function isOfOldRevision(set: StatefulSet, ordinal: number): boolean {
  if (!isRolling(set)) return false;
  const rolling = set.spec?.updateStrategy?.rollingUpdate;
  return ordinal < startOrdinal(set) + (rolling === undefined ? (set.status?.currentReplicas ?? 0) : (rolling.partition ?? 0));
}

/** Replicas by ordinal, the update revision, and the time in milliseconds. */
export interface ReplicaUpdate {
  readonly replicas: readonly (Pod | undefined)[];
  readonly update: string;
  readonly nowMs: number;
}

/**
 * Returns the pod that a rolling update deletes now: the outdated pod with the highest ordinal, unless a pod above it is not available yet. An
 * outdated pod need not be available. `maxUnavailable` has no effect: the feature gate MaxUnavailableStatefulSet (KEP-961) is off in 1.36.
 */
export function podToUpdate(set: StatefulSet, { replicas, update, nowMs }: ReplicaUpdate): Pod | undefined {
  // the partition counts from the first replica, not from ordinal 0
  for (const pod of replicas.slice(partitionOf(set)).reverse()) {
    if (pod === undefined) return undefined;
    if (revisionOf(pod) !== update && !isTerminating(pod)) return pod;
    if (!isHealthy(set, pod, nowMs)) return undefined;
  }
  return undefined;
}

/** Returns the StatefulSet status with the pod counts. */
export function countStatus(
  set: StatefulSet,
  pods: readonly Pod[],
  {
    current,
    update,
    collisionCount,
    nowMs,
  }: {
    readonly current: ControllerRevision;
    readonly update: ControllerRevision;
    readonly collisionCount: number | undefined;
    readonly nowMs: number;
  },
): StatefulSetStatus {
  const count = { ready: 0, available: 0, current: 0, updated: 0 };
  for (const pod of pods) {
    const inMs = availabilityOf(set, pod, nowMs);
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
  const desired = replicasOf(set);
  const complete = isRolling(set) && status.updatedReplicas === desired && status.readyReplicas === desired && status.replicas === desired;
  return complete ? { ...status, currentReplicas: count.updated, currentRevision: status.updateRevision ?? '' } : status;
}
