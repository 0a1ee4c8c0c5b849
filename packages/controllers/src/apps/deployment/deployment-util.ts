import { scaledValue } from '@oarlock/api/values/int-or-string';
import { parseTime } from '@oarlock/api/values/time';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';

export const deploymentAnnotations = {
  revision: 'deployment.kubernetes.io/revision',
  history: 'deployment.kubernetes.io/revision-history',
  desired: 'deployment.kubernetes.io/desired-replicas',
  max: 'deployment.kubernetes.io/max-replicas',
} as const;

export const specReplicas = (set: ReplicaSet): number => set.spec?.replicas ?? 1;
export const desiredReplicas = (deployment: Deployment): number => deployment.spec?.replicas ?? 1;
export const sumReplicas = (sets: readonly ReplicaSet[], of: (set: ReplicaSet) => number): number =>
  sets.reduce((total, set) => total + of(set), 0);
export const actualReplicas = (set: ReplicaSet): number => set.status?.replicas ?? 0;
export const availableReplicas = (set: ReplicaSet): number => set.status?.availableReplicas ?? 0;
export const isRolling = (deployment: Deployment): boolean => deployment.spec?.strategy?.type !== 'Recreate';
/** Returns the value of the revision annotation as a bigint (int64 upstream); 0 if the annotation is absent or invalid. */
export function revisionOf({ metadata }: ReplicaSet): bigint {
  const text = metadata?.annotations?.[deploymentAnnotations.revision] ?? '';
  return /^\d{1,19}$/.test(text) ? BigInt(text) : 0n;
}
export const byRevision = (a: ReplicaSet, b: ReplicaSet): number => {
  const [first, second] = [revisionOf(a), revisionOf(b)];
  return first === second ? 0 : first < second ? -1 : 1;
};
export const createdAt = (set: ReplicaSet): number => parseTime(set.metadata?.creationTimestamp ?? '') ?? 0;
export const byAge = (a: ReplicaSet, b: ReplicaSet): number =>
  createdAt(a) - createdAt(b) || ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1);

export interface ResolvedFenceposts {
  readonly surge: number;
  readonly unavailable: number;
}

/** Resolves maxSurge and maxUnavailable to numbers. If both are zero, sets maxUnavailable to 1, because the rollout could not progress otherwise. */
export function resolveFenceposts(deployment: Deployment): ResolvedFenceposts {
  if (!isRolling(deployment)) return { surge: 0, unavailable: 0 };
  const { maxSurge = '25%', maxUnavailable = '25%' } = deployment.spec?.strategy?.rollingUpdate ?? {};
  const replicas = desiredReplicas(deployment);
  const surge = scaledValue(maxSurge, replicas, true);
  const unavailable = scaledValue(maxUnavailable, replicas, false);
  return surge === 0 && unavailable === 0 ? { surge: 0, unavailable: 1 } : { surge, unavailable: Math.min(unavailable, replicas) };
}

export const maxPods = (deployment: Deployment): number => desiredReplicas(deployment) + resolveFenceposts(deployment).surge;

/** Returns the number of replicas that the new ReplicaSet may have now, within maxSurge. */
export function newReplicaSetReplicas(deployment: Deployment, all: readonly ReplicaSet[], newSet: ReplicaSet): number {
  if (!isRolling(deployment)) return desiredReplicas(deployment);
  const available = maxPods(deployment) - sumReplicas(all, specReplicas);
  if (available <= 0) return specReplicas(newSet);
  return specReplicas(newSet) + Math.min(available, desiredReplicas(deployment) - specReplicas(newSet));
}

/** Returns the replicas of each active ReplicaSet, scaled in proportion to its size. The largest ReplicaSet gets the remainder. */
export function proportionalReplicas(deployment: Deployment, active: readonly ReplicaSet[]): ReadonlyMap<ReplicaSet, number> {
  const allowed = desiredReplicas(deployment) === 0 ? 0 : isRolling(deployment) ? maxPods(deployment) : desiredReplicas(deployment);
  const total = sumReplicas(active, specReplicas);
  let remaining = allowed - total;
  const sign = Math.sign(remaining);
  const order = active.toSorted((a, b) => specReplicas(b) - specReplicas(a) || (sign > 0 ? byAge(b, a) : byAge(a, b)));
  const sizes = new Map<ReplicaSet, number>();
  for (const set of order) {
    const before = Number(set.metadata?.annotations?.[deploymentAnnotations.max] ?? 0) || total;
    const share = before === 0 ? 0 : Math.round((specReplicas(set) * allowed) / before) - specReplicas(set);
    const part = sign > 0 ? Math.max(0, Math.min(share, remaining)) : Math.min(0, Math.max(share, remaining));
    remaining -= part;
    sizes.set(set, specReplicas(set) + part);
  }
  const [largest] = order;
  if (largest !== undefined && remaining !== 0) sizes.set(largest, Math.max(0, (sizes.get(largest) ?? 0) + remaining));
  return sizes;
}
