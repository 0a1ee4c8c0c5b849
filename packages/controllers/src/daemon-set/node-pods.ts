import { scaledValue } from '@oarlock/api/int-or-string';
import type { DaemonSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { availableIn, isReady, isTerminating } from '../pod-state.ts';
import { revisionLabel } from '../revision-history.ts';

/** Bound pods before others, then the older. */
export function byBoundAndAge(a: Pod, b: Pod): number {
  const bound = Number(Boolean(b.spec?.nodeName)) - Number(Boolean(a.spec?.nodeName));
  if (bound !== 0) return bound;
  const [old, young] = [a.metadata?.creationTimestamp ?? '', b.metadata?.creationTimestamp ?? ''];
  if (old !== young) return old < young ? -1 : 1;
  return (a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1;
}

export const isUpdated = (pod: Pod, hash: string): boolean => pod.metadata?.labels?.[revisionLabel] === hash;
export const isAvailable = ({ spec }: DaemonSet, pod: Pod, nowMs: number): boolean =>
  availableIn(pod, spec?.minReadySeconds ?? 0, nowMs) === 0;
const isRolling = ({ spec }: DaemonSet) => spec?.updateStrategy?.type !== 'OnDelete';
const surgeOf = (set: DaemonSet, nodes: number): number =>
  isRolling(set) ? scaledValue(set.spec?.updateStrategy?.rollingUpdate?.maxSurge ?? 0, nodes, true) : 0;

/** Which of several running pods of one node are too many. With surge an old one stays until the new one is available. */
export function excess(set: DaemonSet, running: readonly Pod[], hash: string, nowMs: number): readonly Pod[] {
  if (running.length <= 1) return [];
  const sorted = running.toSorted(byBoundAndAge);
  if (surgeOf(set, 100) === 0) return sorted.slice(1);
  const [fresh, ...moreFresh] = sorted.filter((pod) => isUpdated(pod, hash));
  const [old, ...moreOld] = sorted.filter((pod) => !isUpdated(pod, hash));
  const ended = fresh !== undefined && old !== undefined && (!isReady(old) || isAvailable(set, fresh, nowMs)) ? [old] : [];
  return [...moreFresh, ...moreOld, ...ended];
}

export interface RollingStep {
  readonly remove: readonly Pod[];
  /** Nodes that get a new pod beside the old one. */
  readonly surge: readonly string[];
}

/** What a rolling update does next, within maxUnavailable and maxSurge of the nodes that want a pod. */
export function rollingStep(
  set: DaemonSet,
  podsOf: ReadonlyMap<string, readonly Pod[]>,
  desired: readonly string[],
  hash: string,
  nowMs: number,
): RollingStep {
  if (!isRolling(set)) return { remove: [], surge: [] };
  const maxSurge = surgeOf(set, desired.length);
  const asked = scaledValue(set.spec?.updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, desired.length, true);
  const maxUnavailable = asked === 0 && maxSurge === 0 ? 1 : asked;
  const [remove, surge, allowedPods, pods]: [Pod[], string[], Pod[], Pod[]] = [[], [], [], []];
  const nodes: string[] = [];
  let taken = 0; // of maxSurge or of maxUnavailable, whichever is in force
  for (const node of new Set([...podsOf.keys(), ...desired])) {
    const live = (podsOf.get(node) ?? []).filter((pod) => !isTerminating(pod));
    const [fresh, ...moreFresh] = live.filter((pod) => isUpdated(pod, hash));
    const [old, ...moreOld] = live.filter((pod) => !isUpdated(pod, hash));
    // what the set's nodes lack or have too much of is put right first
    const odd = moreFresh.length + moreOld.length > 0;
    if (maxSurge === 0) {
      if (odd || (fresh === undefined) === (old === undefined)) taken += 1;
      else if (fresh !== undefined) taken += isAvailable(set, fresh, nowMs) ? 0 : 1;
      else if (old !== undefined) (isAvailable(set, old, nowMs) ? pods : allowedPods).push(old);
    } else if (odd) taken += 1;
    else if (old !== undefined && fresh === undefined) (isAvailable(set, old, nowMs) ? nodes : surge).push(node);
    else if (old !== undefined && fresh !== undefined) {
      if (isAvailable(set, fresh, nowMs)) remove.push(old);
      else taken += 1;
    }
  }
  if (maxSurge === 0) remove.push(...allowedPods, ...pods.slice(0, Math.max(0, maxUnavailable - taken)));
  else surge.push(...nodes.slice(0, Math.max(0, maxSurge - taken)));
  return { remove, surge };
}
