import { scaledValue } from '@oarlock/api/int-or-string';
import { parseTime } from '@oarlock/api/time';
import type { Deployment, ReplicaSet } from '@oarlock/api/types/apps-v1';

export const annotations = {
  revision: 'deployment.kubernetes.io/revision',
  history: 'deployment.kubernetes.io/revision-history',
  desired: 'deployment.kubernetes.io/desired-replicas',
  max: 'deployment.kubernetes.io/max-replicas',
} as const;

export const wanted = (set: ReplicaSet): number => set.spec?.replicas ?? 1;
export const desired = (deployment: Deployment): number => deployment.spec?.replicas ?? 1;
export const sum = (sets: readonly ReplicaSet[], of: (set: ReplicaSet) => number): number =>
  sets.reduce((total, set) => total + of(set), 0);
export const actual = (set: ReplicaSet): number => set.status?.replicas ?? 0;
export const availableOf = (set: ReplicaSet): number => set.status?.availableReplicas ?? 0;
export const isRolling = (deployment: Deployment): boolean => deployment.spec?.strategy?.type !== 'Recreate';
/** 64 bits, of which a number holds less. What cannot be read counts as none. */
export function revisionOf({ metadata }: ReplicaSet): bigint {
  const text = metadata?.annotations?.[annotations.revision] ?? '';
  return /^\d{1,19}$/.test(text) ? BigInt(text) : 0n;
}
export const byRevision = (a: ReplicaSet, b: ReplicaSet): number => {
  const [first, second] = [revisionOf(a), revisionOf(b)];
  return first === second ? 0 : first < second ? -1 : 1;
};
export const createdAt = (set: ReplicaSet): number => parseTime(set.metadata?.creationTimestamp ?? '') ?? 0;
export const byAge = (a: ReplicaSet, b: ReplicaSet): number =>
  createdAt(a) - createdAt(b) || ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1);

export interface Fenceposts {
  readonly surge: number;
  readonly unavailable: number;
}

/** Both zero would stop every rollout: then one may be unavailable. */
export function fenceposts(deployment: Deployment): Fenceposts {
  if (!isRolling(deployment)) return { surge: 0, unavailable: 0 };
  const { maxSurge = '25%', maxUnavailable = '25%' } = deployment.spec?.strategy?.rollingUpdate ?? {};
  const replicas = desired(deployment);
  const surge = scaledValue(maxSurge, replicas, true);
  const unavailable = scaledValue(maxUnavailable, replicas, false);
  return surge === 0 && unavailable === 0 ? { surge: 0, unavailable: 1 } : { surge, unavailable: Math.min(unavailable, replicas) };
}

export const maxPods = (deployment: Deployment): number => desired(deployment) + fenceposts(deployment).surge;

/** How large the new set may be now. */
export function newSetSize(deployment: Deployment, all: readonly ReplicaSet[], newSet: ReplicaSet): number {
  if (!isRolling(deployment)) return desired(deployment);
  const room = maxPods(deployment) - sum(all, wanted);
  if (room <= 0) return wanted(newSet);
  return wanted(newSet) + Math.min(room, desired(deployment) - wanted(newSet));
}

/** A set's share of a change of the whole, by its part of what there was; the rest goes to the largest (KEP of proportional scaling). */
export function proportions(deployment: Deployment, active: readonly ReplicaSet[]): ReadonlyMap<ReplicaSet, number> {
  const allowed = desired(deployment) === 0 ? 0 : isRolling(deployment) ? maxPods(deployment) : desired(deployment);
  const total = sum(active, wanted);
  let left = allowed - total;
  const sign = Math.sign(left);
  const order = active.toSorted((a, b) => wanted(b) - wanted(a) || (sign > 0 ? byAge(b, a) : byAge(a, b)));
  const sizes = new Map<ReplicaSet, number>();
  for (const set of order) {
    const before = Number(set.metadata?.annotations?.[annotations.max] ?? 0) || total;
    const share = before === 0 ? 0 : Math.round((wanted(set) * allowed) / before) - wanted(set);
    const part = sign > 0 ? Math.max(0, Math.min(share, left)) : Math.min(0, Math.max(share, left));
    left -= part;
    sizes.set(set, wanted(set) + part);
  }
  const [largest] = order;
  if (largest !== undefined && left !== 0) sizes.set(largest, Math.max(0, (sizes.get(largest) ?? 0) + left));
  return sizes;
}
