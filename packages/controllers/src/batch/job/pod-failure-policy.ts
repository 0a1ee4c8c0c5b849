import { parseTime } from '@oarlock/api/values/time';
import type { Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule } from '@oarlock/api/types/batch-v1';
import type { ContainerStatus, Pod } from '@oarlock/api/types/core-v1';
import { conditionOf, isTerminating } from '../../pods/pod-state.ts';

/** The finalizer that keeps a terminated pod until the Job status counts the pod. */
export const trackingFinalizer = 'batch.kubernetes.io/job-tracking';
export const indexKey = 'batch.kubernetes.io/job-completion-index';
export const failureCountKey = 'batch.kubernetes.io/job-index-failure-count';
export const ignoredCountKey = 'batch.kubernetes.io/job-index-ignored-failure-count';

export const isTracked = (pod: Pod): boolean => pod.metadata?.finalizers?.includes(trackingFinalizer) ?? false;
export const isIndexed = ({ spec }: Job): boolean => spec?.completionMode === 'Indexed';
export const hasLimitPerIndex = (job: Job): boolean => isIndexed(job) && job.spec?.backoffLimitPerIndex !== undefined;
/** Returns true if the Job's podReplacementPolicy is Failed: a pod is replaced when it has failed, not when it is terminating (KEP-3939). */
export const replacesFailedOnly = ({ spec }: Job): boolean =>
  spec?.podReplacementPolicy === 'Failed' || spec?.podFailurePolicy !== undefined;

/** Returns true if the pod has failed. A terminating pod counts as failed unless podReplacementPolicy is Failed. */
export const isFailed = (job: Job, pod: Pod): boolean =>
  pod.status?.phase === 'Failed' || (!replacesFailedOnly(job) && isTerminating(pod) && pod.status?.phase !== 'Succeeded');

export function indexOf(job: Job, pod: Pod): number | undefined {
  const text = pod.metadata?.annotations?.[indexKey] ?? '';
  if (!/^[0-9]{1,9}$/.test(text)) return undefined;
  const index = Number(text);
  return index < (job.spec?.completions ?? 0) ? index : undefined;
}

/** Returns the finish time of a pod in milliseconds since the epoch, from the container statuses or else from the conditions. */
export function finishedAt(pod: Pod): number {
  const ends = (pod.status?.containerStatuses ?? []).map(({ state }) => parseTime(state?.terminated?.finishedAt ?? '') ?? 0);
  const latest = Math.max(0, ...ends);
  if (latest > 0) return latest;
  const ready = parseTime(conditionOf(pod, 'Ready')?.lastTransitionTime ?? '');
  if (ready !== undefined) return ready;
  const deleted = parseTime(pod.metadata?.deletionTimestamp ?? '');
  if (deleted !== undefined) return deleted - (pod.metadata?.deletionGracePeriodSeconds ?? 0) * 1000;
  return parseTime(pod.metadata?.creationTimestamp ?? '') ?? 0;
}

export type FailureAction = 'FailJob' | 'Ignore' | 'Count' | 'FailIndex';
export interface FailureMatch {
  readonly action: FailureAction;
  readonly message: string;
}

const codeMatches = ({ operator, values }: PodFailurePolicyOnExitCodesRequirement, code: number) =>
  code !== 0 && (operator === 'In' ? values.includes(code) : operator === 'NotIn' && !values.includes(code));

function findMatchingContainer(requirement: PodFailurePolicyOnExitCodesRequirement, pod: Pod): ContainerStatus | undefined {
  const all = [...(pod.status?.containerStatuses ?? []), ...(pod.status?.initContainerStatuses ?? [])];
  return all.find(
    ({ name, state }) =>
      (requirement.containerName === undefined || requirement.containerName === name) &&
      state?.terminated !== undefined &&
      codeMatches(requirement, state.terminated.exitCode),
  );
}

function matchRule({ action, onExitCodes, onPodConditions }: PodFailurePolicyRule, at: number, pod: Pod): string | undefined {
  const podName = `${pod.metadata?.namespace}/${pod.metadata?.name}`;
  const container = onExitCodes && findMatchingContainer(onExitCodes, pod);
  if (container !== undefined) {
    const code = container.state?.terminated?.exitCode;
    return `Container ${container.name} for pod ${podName} failed with exit code ${code} matching ${action} rule at index ${at}`;
  }
  const condition = pod.status?.conditions?.find(({ type, status }) =>
    onPodConditions?.some((pattern) => pattern.type === type && (pattern.status ?? 'True') === status),
  );
  return condition && `Pod ${podName} has condition ${condition.type} matching ${action} rule at index ${at}`;
}

/** Returns the first rule of the Job's pod failure policy that a failed pod matches (KEP-3329), or undefined. */
export function matchFailurePolicy({ spec }: Job, pod: Pod): FailureMatch | undefined {
  for (const [at, rule] of (spec?.podFailurePolicy?.rules ?? []).entries()) {
    const message = matchRule(rule, at, pod);
    if (message !== undefined) return { action: rule.action as FailureAction, message };
  }
  return undefined;
}

export const isCountedFailure = (job: Job, pod: Pod): boolean => matchFailurePolicy(job, pod)?.action !== 'Ignore';

const numberAt = (pod: Pod, key: string) => Number(pod.metadata?.annotations?.[key] ?? 0) || 0;
export const failuresOf = (pod: Pod): number => numberAt(pod, failureCountKey);
export const ignoredFailuresOf = (pod: Pod): number => numberAt(pod, ignoredCountKey);

/** Returns true if the failure of this pod makes the pod's completion index fail. */
export function failsIndex(job: Job, pod: Pod): boolean {
  if (!isFailed(job, pod)) return false;
  const action = matchFailurePolicy(job, pod)?.action;
  if (action === 'FailIndex') return true;
  return action !== 'Ignore' && failuresOf(pod) >= (job.spec?.backoffLimitPerIndex ?? Number.POSITIVE_INFINITY);
}
