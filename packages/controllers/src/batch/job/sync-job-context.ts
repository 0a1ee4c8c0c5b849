import type { Job } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { isActive, isPodTerminating, isReady, isTerminal } from '../../pods/pod-state.ts';
import { IndexSet } from './index-set.ts';
import {
  failsIndex,
  finishedAt,
  hasLimitPerIndex,
  indexOf,
  isCountedFailure,
  isFailed,
  isIndexed,
  isTracked,
} from './pod-failure-policy.ts';

const initialBackoffMs = 10_000;
const maxBackoffMs = 600_000;

/** State of a Job and its pods in one sync (`syncJobCtx` upstream). */
export interface SyncJobContext {
  readonly job: Job;
  readonly pods: readonly Pod[];
  /** Pods that have the tracking finalizer, without those whose finalizer this process has removed. */
  readonly pending: readonly Pod[];
  readonly active: readonly Pod[];
  readonly ready: number;
  readonly terminating: number;
  /** Number of succeeded pods, including pods that the status does not count yet. */
  readonly succeeded: number;
  readonly failed: number;
  /** Completed indexes of an Indexed Job according to the status; the next field includes pods that have just succeeded. */
  readonly previousIndexes: IndexSet;
  readonly indexes: IndexSet;
  readonly failedIndexes: IndexSet | undefined;
  /** Failed pods by index. Their deletion is delayed, because their replacements must take over the failure count of the index. */
  readonly podsDelayingDeletion: ReadonlyMap<number, Pod>;
}

/** Returns the context of a sync. `releasedUids` are the uids of pods whose finalizer is removed although the cache still shows it. */
export function buildSyncJobContext(job: Job, pods: readonly Pod[], releasedUids: ReadonlySet<string>): SyncJobContext {
  const status = job.status;
  const completions = job.spec?.completions ?? 0;
  const uncounted = {
    succeeded: new Set(status?.uncountedTerminatedPods?.succeeded),
    failed: new Set(status?.uncountedTerminatedPods?.failed),
  };
  const uidOf = (pod: Pod) => pod.metadata?.uid ?? '';
  const pending = pods.filter((pod) => isTracked(pod) && !releasedUids.has(uidOf(pod)));
  const newSucceeded = pending.filter((pod) => pod.status?.phase === 'Succeeded' && !uncounted.succeeded.has(uidOf(pod)));
  const newFailed = pending.filter(
    (pod) =>
      isFailed(job, pod) &&
      !uncounted.failed.has(uidOf(pod)) &&
      isCountedFailure(job, pod) &&
      (!isIndexed(job) || indexOf(job, pod) !== undefined),
  );
  const active = pods.filter(isActive);
  const indexed = isIndexed(job);
  const oldIndexes = indexed ? IndexSet.parse(status?.completedIndexes, completions) : IndexSet.empty;
  const indexes = indexed
    ? oldIndexes.plus(newSucceeded.map((pod) => indexOf(job, pod)).filter((index) => index !== undefined))
    : oldIndexes;
  const perIndex = hasLimitPerIndex(job);
  const failedIndexes = perIndex
    ? IndexSet.parse(status?.failedIndexes, completions).plus(
        pending
          .filter((pod) => failsIndex(job, pod))
          .map((pod) => indexOf(job, pod))
          .filter((index) => index !== undefined && !indexes.has(index)) as number[],
      )
    : undefined;
  return {
    job,
    pods,
    pending,
    active,
    ready: active.filter(isReady).length,
    terminating: pods.filter(isPodTerminating).length,
    succeeded: indexed ? indexes.size : (status?.succeeded ?? 0) + newSucceeded.length + uncounted.succeeded.size,
    failed: (status?.failed ?? 0) + newFailed.length + uncounted.failed.size,
    previousIndexes: oldIndexes,
    indexes,
    failedIndexes,
    podsDelayingDeletion: perIndex
      ? findPodsDelayingDeletion(job, pending, { active, done: indexes, failed: failedIndexes ?? IndexSet.empty })
      : new Map(),
  };
}

function findPodsDelayingDeletion(
  job: Job,
  pending: readonly Pod[],
  { active, done, failed }: { readonly active: readonly Pod[]; readonly done: IndexSet; readonly failed: IndexSet },
): ReadonlyMap<number, Pod> {
  const replaced = new Set(active.map((pod) => indexOf(job, pod)));
  const latestFailed = new Map<number, Pod>();
  for (const pod of pending) {
    const index = indexOf(job, pod);
    if (index === undefined || !isFailed(job, pod) || replaced.has(index) || done.has(index) || failed.has(index)) continue;
    const previous = latestFailed.get(index);
    if (previous === undefined || finishedAt(pod) > finishedAt(previous)) latestFailed.set(index, pod);
  }
  return latestFailed;
}

/** Returns the milliseconds until the backoff ends after `failures` consecutive failures; `since` is the time of the last failure. */
export function backoffLeft(failures: number, since: number, nowMs: number): number {
  if (failures === 0) return 0;
  return Math.max(0, since + Math.min(initialBackoffMs * 2 ** Math.min(failures - 1, 30), maxBackoffMs) - nowMs);
}

/** Returns the remaining backoff of the whole Job in milliseconds, by the number of failures since the Job's last success. */
export function jobBackoffLeft({ job, pods }: SyncJobContext, nowMs: number): number {
  const ended = pods
    .filter((pod) => isTerminal(pod) || (isTracked(pod) && isFailed(job, pod)))
    .map((pod) => ({ at: finishedAt(pod), failed: pod.status?.phase !== 'Succeeded' }));
  const lastSuccess = Math.max(-1, ...ended.filter(({ failed }) => !failed).map(({ at }) => at));
  const failures = ended.filter(({ failed, at }) => failed && at > lastSuccess);
  return backoffLeft(failures.length, Math.max(0, ...failures.map(({ at }) => at)), nowMs);
}
