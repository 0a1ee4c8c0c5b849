import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { parseTime } from '@oarlock/api/values/time';
import type { ContainerStatus, Pod } from '@oarlock/api/types/core-v1';
import { conditionOf, isReady } from '../../pods/pod-state.ts';

const phaseRank: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };
const most = (statuses: readonly ContainerStatus[] = []) => Math.max(0, ...statuses.map(({ restartCount }) => restartCount));
const restarts = ({ status }: Pod) => most(status?.containerStatuses);
function sidecarRestarts({ spec, status }: Pod): number {
  const sidecars = new Set((spec?.initContainers ?? []).filter(isRestartableInitContainer).map(({ name }) => name));
  return most(status?.initContainerStatuses?.filter(({ name }) => sidecars.has(name)));
}
const costOf = (pod: Pod) => {
  const cost = Number(pod.metadata?.annotations?.['controller.kubernetes.io/pod-deletion-cost'] ?? 0);
  return Number.isInteger(cost) ? cost : 0;
};
const uidOf = ({ metadata }: Pod) => metadata?.uid ?? '';

/** A pod with what its rank depends on. */
interface RankedPod {
  readonly pod: Pod;
  readonly first: readonly number[];
  readonly readyAt: number | undefined;
  readonly restarts: readonly number[];
  readonly createdAt: number | undefined;
}

/**
 * Compares ages: the younger first, unknown ages before all. With `nowMs` the scale is logarithmic (KEP-2185), and the uid decides between different
 * times of a similar age. Returns 0 for equal times.
 */
function compareAges(
  a: RankedPod,
  b: RankedPod,
  { times, nowMs }: { readonly times: readonly [number | undefined, number | undefined]; readonly nowMs: number | undefined },
): number {
  const [first, second] = times;
  if (first === second) return 0;
  if (nowMs === undefined) return first === undefined ? -1 : second === undefined ? 1 : second - first;
  const rank = (since: number | undefined) => (since === undefined ? -1 : Math.floor(Math.log2(Math.max(1, nowMs - since))));
  return rank(first) - rank(second) || (uidOf(a.pod) < uidOf(b.pod) ? -1 : 1);
}

function compareNumbers(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The numbers of pods by node, and the time in milliseconds, by which a ReplicaSet ranks its pods. */
export interface PodRanking {
  readonly peersOnNode: ReadonlyMap<string, number>;
  readonly nowMs: number;
  /** Whether the annotation with the deletion cost counts (feature gate PodDeletionCost); true by default. */
  readonly hasCosts?: boolean;
}

/**
 * Returns pods in the order in which a scale-down deletes them: unassigned, pending, not ready, lowest deletion cost, most peers on the same
 * node, ready for the shortest time, most restarts of containers and then of sidecars, youngest. The cost and the peers count with a ranking only:
 * ReplicaSets have one (ActivePodsWithRanks upstream), Jobs do not (ActivePods).
 */
export function deletionOrder(pods: readonly Pod[], ranking?: PodRanking): readonly Pod[] {
  const nowMs = ranking?.nowMs;
  const ranked = pods.map((pod): RankedPod => {
    const node = pod.spec?.nodeName ?? '';
    const ready = isReady(pod);
    return {
      pod,
      first: [
        node === '' ? 0 : 1,
        phaseRank[pod.status?.phase ?? 'Pending'] ?? 2,
        ready ? 1 : 0,
        ranking !== undefined && ranking.hasCosts !== false ? costOf(pod) : 0,
        -(ranking?.peersOnNode.get(node) ?? 0),
      ],
      readyAt: ready ? parseTime(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '') : undefined,
      restarts: [-restarts(pod), -sidecarRestarts(pod)],
      createdAt: parseTime(pod.metadata?.creationTimestamp ?? ''),
    };
  });
  ranked.sort(
    (a, b) =>
      compareNumbers(a.first, b.first) ||
      compareAges(a, b, { times: [a.readyAt, b.readyAt], nowMs }) ||
      compareNumbers(a.restarts, b.restarts) ||
      compareAges(a, b, { times: [a.createdAt, b.createdAt], nowMs }) ||
      (uidOf(a.pod) < uidOf(b.pod) ? -1 : 1),
  );
  return ranked.map(({ pod }) => pod);
}
