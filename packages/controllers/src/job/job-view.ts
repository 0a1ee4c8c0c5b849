import type { Job } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { isActive, isReady, isTerminal } from '../pod-state.ts';
import { IndexSet } from './index-set.ts';
import {
  failsIndex,
  finishedAt,
  hasLimitPerIndex,
  indexOf,
  isCountedFailure,
  isEnding,
  isFailed,
  isIndexed,
  isTracked,
} from './pod-outcome.ts';

const firstBackoffMs = 10_000;
const longestBackoffMs = 600_000;

/** What one look at a Job's pods amounts to. */
export interface JobView {
  readonly job: Job;
  readonly pods: readonly Pod[];
  readonly active: readonly Pod[];
  readonly ready: number;
  readonly ending: number;
  /** Counted or about to be. */
  readonly succeeded: number;
  readonly failed: number;
  /** Of Indexed Jobs; those written down already, and with those of pods that have just ended. */
  readonly oldIndexes: IndexSet;
  readonly indexes: IndexSet;
  readonly failedIndexes: IndexSet | undefined;
  /** Failed pods whose replacement has still to learn from them how often their index has failed. */
  readonly kept: ReadonlyMap<number, Pod>;
}

/** `settled`: uids of pods whose finalizer is gone although the cache does not show it yet. */
export function viewOf(job: Job, pods: readonly Pod[], settled: ReadonlySet<string>): JobView {
  const status = job.status;
  const completions = job.spec?.completions ?? 0;
  const uncounted = {
    succeeded: new Set(status?.uncountedTerminatedPods?.succeeded),
    failed: new Set(status?.uncountedTerminatedPods?.failed),
  };
  const uidOf = (pod: Pod) => pod.metadata?.uid ?? '';
  const pending = pods.filter((pod) => isTracked(pod) && !settled.has(uidOf(pod)));
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
    active,
    ready: active.filter(isReady).length,
    ending: pods.filter(isEnding).length,
    succeeded: indexed ? indexes.size : (status?.succeeded ?? 0) + newSucceeded.length + uncounted.succeeded.size,
    failed: (status?.failed ?? 0) + newFailed.length + uncounted.failed.size,
    oldIndexes,
    indexes,
    failedIndexes,
    kept: perIndex ? keptOf(job, pending, active, indexes, failedIndexes ?? IndexSet.empty) : new Map(),
  };
}

function keptOf(job: Job, pending: readonly Pod[], active: readonly Pod[], done: IndexSet, failed: IndexSet): ReadonlyMap<number, Pod> {
  const replaced = new Set(active.map((pod) => indexOf(job, pod)));
  const kept = new Map<number, Pod>();
  for (const pod of pending) {
    const index = indexOf(job, pod);
    if (index === undefined || !isFailed(job, pod) || replaced.has(index) || done.has(index) || failed.has(index)) continue;
    const other = kept.get(index);
    if (other === undefined || finishedAt(pod) > finishedAt(other)) kept.set(index, pod);
  }
  return kept;
}

/** Milliseconds that a new pod has to wait after `failures` in a row, the last of which was at `since`. */
export function backoffLeft(failures: number, since: number, nowMs: number): number {
  if (failures === 0) return 0;
  return Math.max(0, since + Math.min(firstBackoffMs * 2 ** Math.min(failures - 1, 30), longestBackoffMs) - nowMs);
}

/** The same for the Job as a whole: failures since its last success. */
export function jobBackoffLeft({ job, pods }: JobView, nowMs: number): number {
  const ended = pods
    .filter((pod) => isTerminal(pod) || (isTracked(pod) && isFailed(job, pod)))
    .map((pod) => ({ at: finishedAt(pod), failed: pod.status?.phase !== 'Succeeded' }));
  const lastSuccess = Math.max(-1, ...ended.filter(({ failed }) => !failed).map(({ at }) => at));
  const failures = ended.filter(({ failed, at }) => failed && at > lastSuccess);
  return backoffLeft(failures.length, Math.max(0, ...failures.map(({ at }) => at)), nowMs);
}
