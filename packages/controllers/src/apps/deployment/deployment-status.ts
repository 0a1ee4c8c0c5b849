import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet } from '@oarlock/api/types/apps-v1';
import { actualReplicas, availableReplicas, desiredReplicas, resolveFenceposts, specReplicas, sumReplicas } from './deployment-util.ts';

export const conditionOf = (status: DeploymentStatus | undefined, type: string): DeploymentCondition | undefined =>
  status?.conditions?.find((condition) => condition.type === type);

/**
 * Returns the conditions with `condition` added or replaced. Keeps `lastTransitionTime` if the condition's status is equal; returns the same
 * list if its status and reason are equal.
 */
export function withCondition(
  conditions: readonly DeploymentCondition[],
  next: { readonly type: string; readonly status: 'True' | 'False' | 'Unknown'; readonly reason: string; readonly message: string },
  nowMs: number,
): readonly DeploymentCondition[] {
  const old = conditions.find(({ type }) => type === next.type);
  if (old !== undefined && old.status === next.status && old.reason === next.reason) return conditions;
  const time = formatTime(nowMs);
  return [
    ...conditions.filter(({ type }) => type !== next.type),
    { ...next, lastUpdateTime: time, lastTransitionTime: old?.status === next.status ? (old.lastTransitionTime ?? time) : time },
  ];
}
export const withoutCondition = (conditions: readonly DeploymentCondition[], type: string): readonly DeploymentCondition[] =>
  conditions.filter((condition) => condition.type !== type);

/** ReplicaSets of a Deployment, the new one among them, and the time in milliseconds. */
export interface DeploymentReplicaSets {
  readonly all: readonly ReplicaSet[];
  readonly newSet: ReplicaSet | undefined;
  readonly nowMs: number;
}

/** Returns the status with replica counts and the Available condition. */
export function countStatus(deployment: Deployment, { all, newSet, nowMs }: DeploymentReplicaSets): DeploymentStatus {
  const total = sumReplicas(all, actualReplicas);
  const available = sumReplicas(all, availableReplicas);
  const conditions = withCondition(
    deployment.status?.conditions ?? [],
    available >= desiredReplicas(deployment) - resolveFenceposts(deployment).unavailable
      ? { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable', message: 'Deployment has minimum availability.' }
      : {
          type: 'Available',
          status: 'False',
          reason: 'MinimumReplicasUnavailable',
          message: 'Deployment does not have minimum availability.',
        },
    nowMs,
  );
  return {
    observedGeneration: deployment.metadata?.generation ?? 0,
    replicas: total,
    updatedReplicas: newSet === undefined ? 0 : actualReplicas(newSet),
    readyReplicas: sumReplicas(all, ({ status }) => status?.readyReplicas ?? 0),
    availableReplicas: available,
    // counts desired replicas too, also those whose pods cannot be created
    unavailableReplicas: Math.max(0, sumReplicas(all, specReplicas) - available),
    terminatingReplicas: sumReplicas(all, ({ status }) => status?.terminatingReplicas ?? 0),
    ...(deployment.status?.collisionCount !== undefined && { collisionCount: deployment.status.collisionCount }),
    conditions,
  };
}

/** Returns true if all replicas are updated and available and no old replica is left. */
export function isComplete(deployment: Deployment, status: DeploymentStatus): boolean {
  return (
    status.updatedReplicas === desiredReplicas(deployment) &&
    status.replicas === desiredReplicas(deployment) &&
    status.availableReplicas === desiredReplicas(deployment) &&
    (status.observedGeneration ?? 0) >= (deployment.metadata?.generation ?? 0)
  );
}

export function isProgressing({ status: old = {} }: Deployment, status: DeploymentStatus): boolean {
  const outdated = (of: DeploymentStatus) => (of.replicas ?? 0) - (of.updatedReplicas ?? 0);
  return (
    (status.updatedReplicas ?? 0) > (old.updatedReplicas ?? 0) ||
    outdated(status) < outdated(old) ||
    (status.readyReplicas ?? 0) > (old.readyReplicas ?? 0) ||
    (status.availableReplicas ?? 0) > (old.availableReplicas ?? 0)
  );
}

export const hasDeadline = ({ spec }: Deployment): boolean =>
  spec?.progressDeadlineSeconds !== undefined && spec.progressDeadlineSeconds !== 2_147_483_647;

/** Returns the milliseconds until the progress deadline, 0 if the deadline has passed, or undefined if no deadline applies. */
export function msUntilProgressDeadline(deployment: Deployment, status: DeploymentStatus, nowMs: number): number | undefined {
  const progressing = conditionOf(status, 'Progressing');
  if (!hasDeadline(deployment) || progressing === undefined || progressing.reason === 'NewReplicaSetAvailable') return undefined;
  if (progressing.reason === 'ProgressDeadlineExceeded') return 0;
  const since = parseTime(progressing.lastUpdateTime ?? '') ?? nowMs;
  return Math.max(0, since + (deployment.spec?.progressDeadlineSeconds ?? 0) * 1000 - nowMs);
}

/** Returns the Progressing and ReplicaFailure conditions, as upstream's syncRolloutStatus sets them. */
export function rolloutConditions(
  deployment: Deployment,
  status: DeploymentStatus,
  { all, newSet, nowMs }: { readonly all: readonly ReplicaSet[]; readonly newSet: ReplicaSet | undefined; readonly nowMs: number },
): readonly DeploymentCondition[] {
  let conditions = status.conditions ?? [];
  if (!hasDeadline(deployment)) conditions = withoutCondition(conditions, 'Progressing');
  const current = conditionOf({ conditions }, 'Progressing');
  const idle = status.replicas === status.updatedReplicas && current?.reason === 'NewReplicaSetAvailable';
  if (hasDeadline(deployment) && !idle) {
    const subject = newSet === undefined ? `Deployment "${deployment.metadata?.name}"` : `ReplicaSet "${newSet.metadata?.name}"`;
    if (isComplete(deployment, status)) {
      conditions = withCondition(
        conditions,
        { type: 'Progressing', status: 'True', reason: 'NewReplicaSetAvailable', message: `${subject} has successfully progressed.` },
        nowMs,
      );
    } else if (isProgressing(deployment, status)) {
      const next = {
        type: 'Progressing',
        status: 'True',
        reason: 'ReplicaSetUpdated',
        message: `${subject} is progressing.`,
        lastUpdateTime: formatTime(nowMs),
      };
      conditions = [
        ...withoutCondition(conditions, 'Progressing'),
        {
          ...next,
          lastTransitionTime: current?.status === 'True' ? (current.lastTransitionTime ?? next.lastUpdateTime) : next.lastUpdateTime,
        },
      ];
    } else if (msUntilProgressDeadline(deployment, { conditions }, nowMs) === 0) {
      conditions = withCondition(
        conditions,
        { type: 'Progressing', status: 'False', reason: 'ProgressDeadlineExceeded', message: `${subject} has timed out progressing.` },
        nowMs,
      );
    }
  }
  // a failure of the new ReplicaSet precedes those of old ones
  const failure = [...(newSet ? [newSet] : []), ...all]
    .flatMap((set) => set.status?.conditions ?? [])
    .find(({ type, status: value }) => type === 'ReplicaFailure' && value === 'True');
  return failure === undefined
    ? withoutCondition(conditions, 'ReplicaFailure')
    : withCondition(
        conditions,
        { type: 'ReplicaFailure', status: 'True', reason: failure.reason ?? '', message: failure.message ?? '' },
        nowMs,
      );
}
