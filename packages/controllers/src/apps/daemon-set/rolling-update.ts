import { scaledValue } from '@oarlock/api/values/int-or-string';
import type { DaemonSet } from '@oarlock/api/types/apps-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { availableIn, isReady, isTerminating } from '../../pods/pod-state.ts';
import { revisionLabel } from '../history/controller-history.ts';

/** Compares pods: bound pods before unbound pods, then older pods first. */
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

/** Pods of a DaemonSet on one node, the current hash, and the time in milliseconds. */
export interface DaemonPodsOnNode {
  readonly running: readonly Pod[];
  readonly hash: string;
  readonly nowMs: number;
}

/**
 * Returns the running daemon pods of one node that must be deleted because the node has more than one. With maxSurge, an old pod is kept
 * until the new pod is available.
 */
export function excessPods(set: DaemonSet, { running, hash, nowMs }: DaemonPodsOnNode): readonly Pod[] {
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
  /** Nodes on which a pod of the new revision is created beside the old pod (maxSurge). */
  readonly surge: readonly string[];
}

/** Returns the next step of a rolling update that respects maxUnavailable and maxSurge. */
export function rollingStep(
  set: DaemonSet,
  podsOf: ReadonlyMap<string, readonly Pod[]>,
  { desired, hash, nowMs }: { readonly desired: readonly string[]; readonly hash: string; readonly nowMs: number },
): RollingStep {
  if (!isRolling(set)) return { remove: [], surge: [] };
  const maxSurge = surgeOf(set, desired.length);
  const configured = scaledValue(set.spec?.updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, desired.length, true);
  const maxUnavailable = configured === 0 && maxSurge === 0 ? 1 : configured;
  const [remove, surge, allowedPods, candidatePods]: [Pod[], string[], Pod[], Pod[]] = [[], [], [], []];
  const candidateNodes: string[] = [];
  let used = 0; // of maxSurge if surge is enabled, otherwise of maxUnavailable
  for (const node of new Set([...podsOf.keys(), ...desired])) {
    const live = (podsOf.get(node) ?? []).filter((pod) => !isTerminating(pod));
    const [fresh, ...moreFresh] = live.filter((pod) => isUpdated(pod, hash));
    const [old, ...moreOld] = live.filter((pod) => !isUpdated(pod, hash));
    // nodes with duplicate pods are left to the sync of nodes
    const hasDuplicates = moreFresh.length + moreOld.length > 0;
    if (maxSurge === 0) {
      if (hasDuplicates || (fresh === undefined) === (old === undefined)) used += 1;
      else if (fresh !== undefined) used += isAvailable(set, fresh, nowMs) ? 0 : 1;
      else if (old !== undefined) (isAvailable(set, old, nowMs) ? candidatePods : allowedPods).push(old);
    } else if (hasDuplicates) used += 1;
    else if (old !== undefined && fresh === undefined) (isAvailable(set, old, nowMs) ? candidateNodes : surge).push(node);
    else if (old !== undefined && fresh !== undefined) {
      if (isAvailable(set, fresh, nowMs)) remove.push(old);
      else used += 1;
    }
  }
  if (maxSurge === 0) remove.push(...allowedPods, ...candidatePods.slice(0, Math.max(0, maxUnavailable - used)));
  else surge.push(...candidateNodes.slice(0, Math.max(0, maxSurge - used)));
  return { remove, surge };
}
