import type { Rejection } from './plugin-status.ts';

/**
 * Returns the message of a pod that fits no node, as upstream's FitError does:
 * `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
 */
export function fitErrorMessage(nodeCount: number, nodeToStatus: ReadonlyMap<string, Rejection>, preFilterRejection?: Rejection): string {
  if (nodeCount === 0) return 'no nodes available to schedule pods';
  const reasons = preFilterRejection === undefined ? nodeReasons(nodeToStatus) : reasonsOf(preFilterRejection);
  return `0/${nodeCount} nodes are available:${reasons.length > 0 ? ` ${reasons.join(', ')}.` : ''}`;
}

/** Returns how many nodes were rejected for each reason. */
export function countReasons(nodeToStatus: ReadonlyMap<string, Rejection>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const rejection of nodeToStatus.values())
    for (const reason of reasonsOf(rejection)) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return counts;
}

const reasonsOf = ({ status }: Rejection): readonly string[] => ('reasons' in status ? status.reasons : []);

const nodeReasons = (nodeToStatus: ReadonlyMap<string, Rejection>): readonly string[] =>
  [...countReasons(nodeToStatus)].map(([reason, count]) => `${count} ${reason}`).sort();
