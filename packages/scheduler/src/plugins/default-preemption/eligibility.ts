import type { Pod } from '@oarlock/api/types/core-v1';
import type { CycleState, NodeToStatus, PodGroupDryRun, PodGroupPreemption, PodInfo } from '@oarlock/spi/scheduling';
import { priorityOf } from '../../pod-info/pod-info.ts';

/** Upstream's messages for pods that may not preempt other pods. */
const ineligibleReasons = {
  never: 'not eligible due to preemptionPolicy=Never.',
  terminating: 'not eligible due to a terminating pod on the nominated node.',
};

const isTerminatingByPreemption = ({ metadata, status }: Pod): boolean =>
  metadata?.deletionTimestamp !== undefined &&
  status?.conditions?.some(
    ({ type, status: value, reason }) => type === 'DisruptionTarget' && value === 'True' && reason === 'PreemptionByScheduler',
  ) === true;

/** Returns why a pod may not preempt other pods now, or undefined if preemption is allowed (PodEligibleToPreemptOthers upstream). */
export function podIneligibleReason(state: CycleState, pod: PodInfo, nodeToStatus: NodeToStatus): string | undefined {
  if (pod.pod.spec?.preemptionPolicy === 'Never') return ineligibleReasons.never;
  const nominatedNode = state.nominatedNodeName?.(pod) ?? pod.pod.status?.nominatedNodeName;
  if (!nominatedNode || nodeToStatus.get(nominatedNode)?.status.code === 'unresolvable') return undefined;
  const hasTerminatingVictim = state.snapshot
    .get(nominatedNode)
    ?.pods.some((other) => priorityOf(other) < priorityOf(pod) && isTerminatingByPreemption(other.pod));
  return hasTerminatingVictim ? ineligibleReasons.terminating : undefined;
}

/** Returns why a pod group may not preempt pods now, or undefined if preemption is allowed. */
export function podGroupIneligibleReason(
  { priority, podGroupOf }: PodGroupPreemption,
  { members, snapshot, nominatedNodeName }: PodGroupDryRun,
): string | undefined {
  if (members.some(({ pod }) => pod.spec?.preemptionPolicy === 'Never')) return ineligibleReasons.never;
  const nominatedNodes = new Set(members.map((member) => nominatedNodeName(member) ?? member.pod.status?.nominatedNodeName ?? ''));
  const hasTerminatingVictim = [...nominatedNodes].some((name) =>
    snapshot
      .get(name)
      ?.pods.some((other) => (podGroupOf(other.pod)?.priority ?? priorityOf(other)) < priority && isTerminatingByPreemption(other.pod)),
  );
  return hasTerminatingVictim ? ineligibleReasons.terminating : undefined;
}
