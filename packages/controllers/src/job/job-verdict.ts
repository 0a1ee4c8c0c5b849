import { parseTime } from '@oarlock/api/time';
import type { Job, JobCondition } from '@oarlock/api/types/batch-v1';
import { IndexSet } from './index-set.ts';
import type { JobView } from './job-view.ts';
import { isFailed, isTracked, matchFailurePolicy } from './pod-outcome.ts';

export interface Verdict {
  readonly type: 'SuccessCriteriaMet' | 'FailureTarget';
  readonly reason: string;
  readonly message: string;
}

export const conditionOf = ({ status }: Job, type: string): JobCondition | undefined =>
  status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');
export const isFinished = (job: Job): boolean => conditionOf(job, 'Complete') !== undefined || conditionOf(job, 'Failed') !== undefined;

/** Milliseconds until the Job has been active for too long; undefined when nothing runs against it. */
export function deadlineLeft({ spec, status }: Job, nowMs: number): number | undefined {
  const start = parseTime(status?.startTime ?? '');
  if (spec?.activeDeadlineSeconds === undefined || spec.suspend === true || start === undefined) return undefined;
  return Math.max(0, start + spec.activeDeadlineSeconds * 1000 - nowMs);
}

/** Containers that are restarted in place count against the limit too. */
function restartedTooOften({ job, active }: JobView): boolean {
  if (job.spec?.template.spec?.restartPolicy !== 'OnFailure') return false;
  const limit = job.spec.backoffLimit ?? 6;
  let restarts = 0;
  for (const { status } of active)
    for (const container of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])
      restarts += container.restartCount;
  return limit === 0 ? restarts > 0 : restarts >= limit;
}

function successByPolicy({ job, indexes }: JobView): Verdict | undefined {
  for (const [at, { succeededIndexes, succeededCount }] of (job.spec?.successPolicy?.rules ?? []).entries()) {
    const wanted = succeededIndexes === undefined ? undefined : IndexSet.parse(succeededIndexes, job.spec?.completions ?? 0);
    const have = wanted === undefined ? indexes.size : indexes.common(wanted);
    const need = succeededCount ?? wanted?.size;
    if (need !== undefined && have >= need)
      return { type: 'SuccessCriteriaMet', reason: 'SuccessPolicy', message: `Matched rules at index ${at}` };
  }
  return undefined;
}

/** What is to become of the Job, once its pods have ended: decided once, and then kept in its conditions. */
export function verdictOf(view: JobView, nowMs: number): Verdict | undefined {
  const { job, pods, failed, failedIndexes } = view;
  for (const type of ['SuccessCriteriaMet', 'FailureTarget'] as const) {
    const decided = conditionOf(job, type);
    if (decided !== undefined) return { type, reason: decided.reason ?? '', message: decided.message ?? '' };
  }
  const fail = (reason: string, message: string): Verdict => ({ type: 'FailureTarget', reason, message });
  for (const pod of job.spec?.podFailurePolicy === undefined ? [] : pods) {
    if (!isTracked(pod) || !isFailed(job, pod)) continue;
    const match = matchFailurePolicy(job, pod);
    if (match?.action === 'FailJob') return fail('PodFailurePolicy', match.message);
  }
  if (failed > (job.spec?.backoffLimit ?? 6) || restartedTooOften(view))
    return fail('BackoffLimitExceeded', 'Job has reached the specified backoff limit');
  if (deadlineLeft(job, nowMs) === 0) return fail('DeadlineExceeded', 'Job was active longer than specified deadline');
  if (failedIndexes !== undefined) {
    const most = job.spec?.maxFailedIndexes;
    if (most !== undefined && failedIndexes.size > most)
      return fail('MaxFailedIndexesExceeded', 'Job has exceeded the specified maximal number of failed indexes');
  }
  return successByPolicy(view);
}

/** The verdict on a Job that has nothing left to do. */
export function completionOf({ job, succeeded, failedIndexes }: JobView, active: number): Verdict | undefined {
  const completions = job.spec?.completions;
  if (active > 0) return undefined;
  if (completions === undefined ? succeeded > 0 : succeeded >= completions)
    return { type: 'SuccessCriteriaMet', reason: 'CompletionsReached', message: 'Reached expected number of succeeded pods' };
  if (completions !== undefined && failedIndexes !== undefined && failedIndexes.size > 0 && succeeded + failedIndexes.size >= completions)
    return { type: 'FailureTarget', reason: 'FailedIndexes', message: 'Job has failed indexes' };
  return undefined;
}
