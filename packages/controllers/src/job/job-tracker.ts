import { jobs, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Job, JobCondition, JobStatus } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { nameOf, typed } from '../pod-template.ts';
import type { Superseded } from '../superseded.ts';
import type { JobView } from './job-view.ts';
import type { Verdict } from './job-verdict.ts';
import { conditionOf } from './job-verdict.ts';
import { indexOf, isCountedFailure, isFailed, isIndexed, isTracked, trackingFinalizer } from './pod-outcome.ts';

const maxUncounted = 500; // pods that one status may hold on the way to being counted, as upstream

/** Uids of pods whose finalizer this process has removed and its cache still shows. */
export class SettledPods {
  readonly #uids = new Map<string, Set<string>>();
  of(key: string): ReadonlySet<string> {
    return this.#uids.get(key) ?? none;
  }
  add(key: string, uid: string): void {
    const known = this.#uids.get(key);
    if (known === undefined) this.#uids.set(key, new Set([uid]));
    else known.add(uid);
  }
  seen(key: string, uid: string): void {
    const known = this.#uids.get(key);
    if (known?.delete(uid) === true && known.size === 0) this.#uids.delete(key);
  }
  forget(key: string): void {
    this.#uids.delete(key);
  }
}
const none: ReadonlySet<string> = new Set();

export function withCondition(
  status: JobStatus,
  condition: Pick<JobCondition, 'type' | 'reason' | 'message'> & { status: 'True' | 'False' },
  nowMs: number,
): JobStatus {
  const now = formatTime(nowMs);
  const others = (status.conditions ?? []).filter(({ type }) => type !== condition.type);
  return { ...status, conditions: [...others, { ...condition, lastProbeTime: now, lastTransitionTime: now }] };
}

interface Tracking {
  readonly key: string;
  readonly view: JobView;
  /** The status with the counts of this look; what has ended is counted here. */
  readonly status: JobStatus;
  readonly verdict: Verdict | undefined;
  readonly settled: SettledPods;
  readonly superseded: Superseded;
  /** False while the cache is known to be behind: something may still run. */
  readonly mayFinish: boolean;
  readonly client: Client;
  readonly nowMs: number;
}

/**
 * Counts every pod once, whatever is cut off in between (KEP-2307): its uid is written into the status, then its finalizer goes, then the
 * uid becomes part of the count. Indexed Jobs write down the index instead, which cannot be counted twice. Returns the Job as last written, and
 * whether some ended pods have to wait for the next look.
 */
export async function track({ key, view, status: counts, verdict, settled, superseded, mayFinish, client, nowMs }: Tracking): Promise<Job> {
  const { job, pods, indexes, failedIndexes } = view;
  const pending = pods.filter((pod) => isTracked(pod) && !settled.of(key).has(pod.metadata?.uid ?? ''));
  const held = new Set(pending.map(({ metadata }) => metadata?.uid ?? ''));
  const kept = new Set([...view.kept.values()].map(({ metadata }) => metadata?.uid));
  let status = fold(counts, (uid) => held.has(uid));
  const succeeded = [...(status.uncountedTerminatedPods?.succeeded ?? [])];
  const failed = [...(status.uncountedTerminatedPods?.failed ?? [])];
  const known = { succeeded: new Set(succeeded), failed: new Set(failed) };
  const release: Pod[] = [];
  let full = false;
  for (const pod of pending) {
    const uid = pod.metadata?.uid ?? '';
    const done = pod.status?.phase === 'Succeeded';
    const lost = !done && isFailed(job, pod);
    if (!done && !lost && job.metadata?.deletionTimestamp === undefined) continue;
    // a new pod of the index still has to learn from this one, unless there will be none
    if (kept.has(uid) && verdict === undefined && job.metadata?.deletionTimestamp === undefined) continue;
    release.push(pod);
    if (done && !isIndexed(job) && !known.failed.has(uid) && !known.succeeded.has(uid)) succeeded.push(uid);
    else if (lost && !known.failed.has(uid) && (!isIndexed(job) || indexOf(job, pod) !== undefined) && isCountedFailure(job, pod))
      failed.push(uid);
    if (succeeded.length + failed.length >= maxUncounted) {
      full = true;
      break;
    }
  }
  status = { ...status, uncountedTerminatedPods: uncounted(succeeded, failed) };
  if (isIndexed(job)) {
    status = { ...status, succeeded: indexes.size, completedIndexes: indexes.toString() };
    if (failedIndexes !== undefined) status = { ...status, failedIndexes: failedIndexes.toString() };
  }
  if (verdict !== undefined && conditionOf({ status }, verdict.type) === undefined)
    status = withCondition(status, { ...verdict, status: 'True' }, nowMs);
  let current = await writeStatus(job, status, superseded, client);
  if (current === undefined) return { ...job, status };
  await letGo(key, release, settled, client);
  const gone = new Set(release.map(({ metadata }) => metadata?.uid ?? ''));
  status = fold(current.status ?? {}, (uid) => held.has(uid) && !gone.has(uid));
  if (!full && mayFinish) status = finished(job, status, verdict, view, nowMs);
  current = (await writeStatus(current, status, superseded, client)) ?? { ...job, status };
  return current;
}

const uncounted = (succeeded: readonly string[], failed: readonly string[]): NonNullable<JobStatus['uncountedTerminatedPods']> => ({
  ...(succeeded.length > 0 && { succeeded }),
  ...(failed.length > 0 && { failed }),
});

/** Moves uids whose pods carry no finalizer any more into the counts. */
function fold(status: JobStatus, isHeld: (uid: string) => boolean): JobStatus {
  const { succeeded = [], failed = [] } = status.uncountedTerminatedPods ?? {};
  const left = { succeeded: succeeded.filter(isHeld), failed: failed.filter(isHeld) };
  if (left.succeeded.length === succeeded.length && left.failed.length === failed.length) return status;
  return {
    ...status,
    succeeded: (status.succeeded ?? 0) + succeeded.length - left.succeeded.length,
    failed: (status.failed ?? 0) + failed.length - left.failed.length,
    uncountedTerminatedPods: uncounted(left.succeeded, left.failed),
  };
}

/** The last condition comes when nothing of the Job runs and all is counted. */
function finished(job: Job, status: JobStatus, verdict: Verdict | undefined, view: JobView, nowMs: number): JobStatus {
  const open = status.uncountedTerminatedPods;
  if (verdict === undefined || (open?.succeeded?.length ?? 0) + (open?.failed?.length ?? 0) > 0) return status;
  if ((status.active ?? 0) > 0 || (status.terminating ?? 0) > 0 || view.pods.some((pod) => isTracked(pod) && !isEnded(job, pod)))
    return status;
  const { reason, message } = verdict;
  if (verdict.type === 'FailureTarget') return withCondition(status, { type: 'Failed', status: 'True', reason, message }, nowMs);
  return { ...withCondition(status, { type: 'Complete', status: 'True', reason, message }, nowMs), completionTime: formatTime(nowMs) };
}
const isEnded = (job: Job, pod: Pod) => pod.status?.phase === 'Succeeded' || isFailed(job, pod);

async function letGo(key: string, pods: readonly Pod[], settled: SettledPods, client: Client): Promise<void> {
  const results = await Promise.allSettled(
    pods.map(async (pod) => {
      await removeTracking(pod, client);
      settled.add(key, pod.metadata?.uid ?? '');
    }),
  );
  const refused = results.find((result) => result.status === 'rejected');
  if (refused !== undefined) throw refused.reason;
}

/** The pod may go as far as Jobs are concerned. */
export async function removeTracking(pod: Pod, client: Client): Promise<void> {
  try {
    await client.patch(podResource, nameOf(pod), 'strategic', {
      metadata: { uid: pod.metadata?.uid, '$deleteFromPrimitiveList/finalizers': [trackingFinalizer] },
    });
  } catch (error) {
    // gone, or another pod of the name by now
    if (!isStatus(error, 'NotFound', 'Invalid', 'Conflict')) throw error;
    if (isStatus(error, 'Conflict')) {
      // Kubernetes' role for Jobs lets them list pods, not get one
      const { namespace = '', name } = nameOf(pod);
      const { items } = await client.list(podResource, { namespace, fieldSelector: `metadata.name=${name}` });
      if (items[0]?.metadata?.uid === pod.metadata?.uid) throw error;
    }
  }
}

/** Writes the status when it differs; undefined when the Job is gone. */
async function writeStatus(job: Job, status: JobStatus, superseded: Superseded, client: Client): Promise<Job | undefined> {
  if (JSON.stringify(sorted(job.status)) === JSON.stringify(sorted(status))) return job;
  try {
    const written = await client.update(jobs, { ...typed(jobs, job), status }, { subresource: 'status' });
    superseded.wrote(job, written);
    return written;
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
/** Zeros and empty parts say the same as absent ones. */
const sorted = (status: JobStatus = {}) =>
  Object.entries(status)
    .filter(
      ([, value]) => value !== undefined && value !== 0 && value !== '' && JSON.stringify(value) !== '{}' && JSON.stringify(value) !== '[]',
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));
