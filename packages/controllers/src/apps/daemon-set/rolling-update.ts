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

/** Returns true if a rolling update may run two pods on a node. */
export const allowsSurge = (set: DaemonSet): boolean => surgeOf(set, 100) > 0;

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
  if (!allowsSurge(set)) return sorted.slice(1);
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

interface NodePods {
  readonly node: string;
  /** True if the node is to run a pod of the DaemonSet. */
  readonly isDesired: boolean;
  /** The pod of the new revision, and that of an old revision, that are not being deleted. */
  readonly fresh: Pod | undefined;
  readonly old: Pod | undefined;
  /** True if the node has several pods of a kind, which the sync of nodes deletes. */
  readonly hasDuplicates: boolean;
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
  const wanted = new Set(desired);
  const nodes = [...new Set([...podsOf.keys(), ...desired])].map((node): NodePods => {
    const live = (podsOf.get(node) ?? []).filter((pod) => !isTerminating(pod));
    const [fresh, ...moreFresh] = live.filter((pod) => isUpdated(pod, hash));
    const [old, ...moreOld] = live.filter((pod) => !isUpdated(pod, hash));
    return { node, isDesired: wanted.has(node), fresh, old, hasDuplicates: moreFresh.length + moreOld.length > 0 };
  });
  const available = (pod: Pod) => isAvailable(set, pod, nowMs);
  return maxSurge === 0
    ? { remove: podsToReplace(nodes, configured === 0 ? 1 : configured, available), surge: [] }
    : surgeStep(nodes, { maxSurge, desired: desired.length, available });
}

/** Returns the old pods to delete without surge: all that are not available, and others as long as maxUnavailable permits. */
function podsToReplace(nodes: readonly NodePods[], maxUnavailable: number, available: (pod: Pod) => boolean): readonly Pod[] {
  const unavailablePods: Pod[] = [];
  const candidates: Pod[] = [];
  let unavailable = 0;
  for (const { fresh, old, hasDuplicates } of nodes) {
    if (hasDuplicates || (fresh === undefined) === (old === undefined)) unavailable += 1;
    else if (fresh !== undefined) unavailable += available(fresh) ? 0 : 1;
    else if (old !== undefined && available(old)) candidates.push(old);
    else if (old !== undefined) {
      unavailablePods.push(old);
      unavailable += 1;
    }
  }
  return [...unavailablePods, ...candidates.slice(0, Math.max(0, maxUnavailable - unavailable))];
}

/**
 * Returns the step of an update with surge: old pods are deleted when the new pod of their node is available, and from nodes that need no pod
 * as long as enough others are available.
 */
function surgeStep(
  nodes: readonly NodePods[],
  { maxSurge, desired, available }: { readonly maxSurge: number; readonly desired: number; readonly available: (pod: Pod) => boolean },
): RollingStep {
  const [remove, unwanted]: [Pod[], Pod[]] = [[], []];
  const [surge, candidates]: [string[], string[]] = [[], []];
  let surging = 0;
  let numberAvailable = 0;
  for (const { node, isDesired, fresh, old, hasDuplicates } of nodes) {
    if (hasDuplicates) {
      surging += 1;
      continue;
    }
    const serving = old ?? fresh;
    const isServing = serving !== undefined && available(serving);
    if (isServing) numberAvailable += 1;
    if (old === undefined) continue;
    if (fresh !== undefined) {
      if (available(fresh)) remove.push(old);
      else surging += 1;
    } else if (isDesired) (isServing ? candidates : surge).push(node);
    else (isServing ? unwanted : remove).push(old);
  }
  remove.push(...unwanted.slice(0, Math.max(0, numberAvailable - desired)));
  return { remove, surge: [...surge, ...candidates.slice(0, Math.max(0, maxSurge - surging))] };
}
