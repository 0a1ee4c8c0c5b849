import { parseTime } from '@oarlock/api/values/time';
import type { Job, JobCondition } from '@oarlock/api/types/batch-v1';
import { IndexSet } from './index-set.ts';
import type { SyncJobContext } from './sync-job-context.ts';
import { isFailed, isTracked, matchFailurePolicy } from './pod-failure-policy.ts';

export interface FinishCondition {
  readonly type: 'SuccessCriteriaMet' | 'FailureTarget';
  readonly reason: string;
  readonly message: string;
}

export const conditionOf = ({ status }: Job, type: string): JobCondition | undefined =>
  status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');
export const isFinished = (job: Job): boolean => conditionOf(job, 'Complete') !== undefined || conditionOf(job, 'Failed') !== undefined;

/** Returns the milliseconds until activeDeadlineSeconds expires, or undefined if no deadline applies. */
export function msUntilDeadline({ spec, status }: Job, nowMs: number): number | undefined {
  const start = parseTime(status?.startTime ?? '');
  if (spec?.activeDeadlineSeconds === undefined || spec.suspend === true || start === undefined) return undefined;
  return Math.max(0, start + spec.activeDeadlineSeconds * 1000 - nowMs);
}

/** Returns true if the container restarts of a Job with restart policy OnFailure have reached backoffLimit. Terminating pods count until they finish. */
function isPastBackoffLimitOnFailure({ job, pods }: SyncJobContext): boolean {
  if (job.spec?.template.spec?.restartPolicy !== 'OnFailure') return false;
  const limit = job.spec.backoffLimit ?? 6;
  let restarts = 0;
  for (const { status } of pods.filter((pod) => pod.status?.phase === 'Running' || pod.status?.phase === 'Pending'))
    for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])
      restarts += container.restartCount;
  return limit === 0 ? restarts > 0 : restarts >= limit;
}

function matchSuccessPolicy({ job, indexes }: SyncJobContext): FinishCondition | undefined {
  for (const [at, { succeededIndexes, succeededCount }] of (job.spec?.successPolicy?.rules ?? []).entries()) {
    const ruleIndexes = succeededIndexes === undefined ? undefined : IndexSet.parse(succeededIndexes, job.spec?.completions ?? 0);
    const matching = ruleIndexes === undefined ? indexes.size : indexes.common(ruleIndexes);
    const required = succeededCount ?? ruleIndexes?.size;
    if (required !== undefined && matching >= required)
      return { type: 'SuccessCriteriaMet', reason: 'SuccessPolicy', message: `Matched rules at index ${at}` };
  }
  return undefined;
}

/** Returns the interim condition (FailureTarget or SuccessCriteriaMet) that decides the result of a Job. Once set, the condition is kept. */
export function finishConditionOf(syncContext: SyncJobContext, nowMs: number): FinishCondition | undefined {
  const { job, pods, failed } = syncContext;
  for (const type of ['SuccessCriteriaMet', 'FailureTarget'] as const) {
    const existing = conditionOf(job, type);
    if (existing !== undefined) return { type, reason: existing.reason ?? '', message: existing.message ?? '' };
  }
  for (const pod of job.spec?.podFailurePolicy === undefined ? [] : pods) {
    if (!isTracked(pod) || !isFailed(job, pod)) continue;
    const match = matchFailurePolicy(job, pod);
    if (match?.action === 'FailJob') return fail('PodFailurePolicy', match.message);
  }
  if (failed > (job.spec?.backoffLimit ?? 6) || isPastBackoffLimitOnFailure(syncContext))
    return fail('BackoffLimitExceeded', 'Job has reached the specified backoff limit');
  if (msUntilDeadline(job, nowMs) === 0) return fail('DeadlineExceeded', 'Job was active longer than specified deadline');
  return failedIndexesCondition(syncContext) ?? matchSuccessPolicy(syncContext);
}

const fail = (reason: string, message: string): FinishCondition => ({ type: 'FailureTarget', reason, message });

/** Returns the condition of an Indexed Job with too many failed indexes, or in which every index has succeeded or failed. */
function failedIndexesCondition({ job, indexes, failedIndexes }: SyncJobContext): FinishCondition | undefined {
  if (failedIndexes === undefined) return undefined;
  const { maxFailedIndexes, completions = 0 } = job.spec ?? {};
  if (maxFailedIndexes !== undefined && failedIndexes.size > maxFailedIndexes)
    return fail('MaxFailedIndexesExceeded', 'Job has exceeded the specified maximal number of failed indexes');
  return failedIndexes.size > 0 && failedIndexes.size + indexes.size >= completions
    ? fail('FailedIndexes', 'Job has failed indexes')
    : undefined;
}

/** Returns the condition of a Job that has completed. */
export function completionConditionOf({ job, succeeded }: SyncJobContext, active: number): FinishCondition | undefined {
  const completions = job.spec?.completions;
  if (active > 0) return undefined;
  if (completions === undefined ? succeeded > 0 : succeeded >= completions)
    return { type: 'SuccessCriteriaMet', reason: 'CompletionsReached', message: 'Reached expected number of succeeded pods' };
  return undefined;
}
