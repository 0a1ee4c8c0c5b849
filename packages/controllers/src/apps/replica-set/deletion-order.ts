import { parseTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import { conditionOf, isReady } from '../../pods/pod-state.ts';

const phaseRank: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };
const restarts = (pod: Pod) => Math.max(0, ...(pod.status?.containerStatuses ?? []).map(({ restartCount }) => restartCount));
const costOf = (pod: Pod) => {
  const cost = Number(pod.metadata?.annotations?.['controller.kubernetes.io/pod-deletion-cost'] ?? 0);
  return Number.isInteger(cost) ? cost : 0;
};

/** Returns a pod's age on a logarithmic scale, so that pods of similar age compare equal and the uid decides (KEP-2185). */
const ageRank = (since: number | undefined, nowMs: number) =>
  since === undefined ? -1 : Math.floor(Math.log2(Math.max(1, nowMs - since)));

/**
 * Returns pods in the order in which a scale-down deletes them: unassigned, pending, not ready, lowest deletion cost, most peers on the same
 * node, ready for the shortest time, most restarts, youngest.
 */
export function deletionOrder(pods: readonly Pod[], peersOnNode: ReadonlyMap<string, number>, nowMs: number): readonly Pod[] {
  const rank = pods.map((pod) => {
    const node = pod.spec?.nodeName ?? '';
    const ready = isReady(pod);
    return {
      pod,
      by: [
        node === '' ? 0 : 1,
        phaseRank[pod.status?.phase ?? 'Pending'] ?? 2,
        ready ? 1 : 0,
        costOf(pod),
        -(peersOnNode.get(node) ?? 0),
        ready ? ageRank(parseTime(conditionOf(pod, 'Ready')?.lastTransitionTime ?? ''), nowMs) : 0,
        -restarts(pod),
        ageRank(parseTime(pod.metadata?.creationTimestamp ?? ''), nowMs),
      ],
    };
  });
  rank.sort((a, b) => {
    for (const [index, value] of a.by.entries()) {
      const other = b.by[index] ?? 0;
      if (value !== other) return value - other;
    }
    return (a.pod.metadata?.uid ?? '') < (b.pod.metadata?.uid ?? '') ? -1 : 1;
  });
  return rank.map(({ pod }) => pod);
}
