import { jobs, pods as podResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Job, JobCondition, JobStatus } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import type { ConsistencyStore } from '../../expectations/consistency-store.ts';
import type { SyncJobContext } from './sync-job-context.ts';
import type { FinishCondition } from './finish-condition.ts';
import { conditionOf } from './finish-condition.ts';
import { indexOf, isCountedFailure, isFailed, isIndexed, isTracked, trackingFinalizer } from './pod-failure-policy.ts';

const maxUncounted = 500; // maximum number of uids in status.uncountedTerminatedPods, as upstream

/** Uids of pods whose finalizer this process removes, until the informer's cache no longer shows the finalizer. */
export class ReleasedPods {
  readonly #uids = new Map<string, Set<string>>();

  /**
   * Returns the uids of a Job's pods. Must be called before the pods are read from the cache: if the cache showed the removal of a finalizer after the
   * pods were read, this method would no longer return the uid, and the pod would be counted again.
   */
  of(key: string): ReadonlySet<string> {
    return new Set(this.#uids.get(key));
  }

  /** Removes the tracking finalizer of a pod. */
  async release(key: string, pod: Pod, client: Client): Promise<void> {
    const uid = pod.metadata?.uid ?? '';
    // the cache may show the removal before the response arrives
    this.#add(key, uid);
    let isRemoved = false;
    try {
      isRemoved = await removeTrackingFinalizer(pod, client);
    } finally {
      if (!isRemoved) this.observed(key, uid);
    }
  }

  observed(key: string, uid: string): void {
    const known = this.#uids.get(key);
    if (known?.delete(uid) === true && known.size === 0) this.#uids.delete(key);
  }

  forget(key: string): void {
    this.#uids.delete(key);
  }

  #add(key: string, uid: string): void {
    const known = this.#uids.get(key);
    if (known === undefined) this.#uids.set(key, new Set([uid]));
    else known.add(uid);
  }
}

/** Returns the status with a condition, in the place of the condition of the same type. */
export function withCondition(
  status: JobStatus,
  condition: Pick<JobCondition, 'type' | 'reason' | 'message'> & { status: 'True' | 'False' },
  nowMs: number,
): JobStatus {
  const now = formatTime(nowMs);
  const next: JobCondition = { ...condition, lastProbeTime: now, lastTransitionTime: now };
  const { conditions = [] } = status;
  const exists = conditions.some(({ type }) => type === condition.type);
  return { ...status, conditions: exists ? conditions.map((each) => (each.type === condition.type ? next : each)) : [...conditions, next] };
}

interface TrackJobStatusOptions {
  readonly key: string;
  readonly syncContext: SyncJobContext;
  /** The status with the current counts. Terminated pods are added to the counts here. */
  readonly status: JobStatus;
  readonly finishCondition: FinishCondition | undefined;
  readonly releasedPods: ReleasedPods;
  readonly consistencyStore: ConsistencyStore;
  /** False while expectations are pending: a pod that the cache does not show may still run. */
  readonly mayFinish: boolean;
  readonly client: Client;
  readonly nowMs: number;
}

/**
 * Counts every terminated pod exactly once, even across crashes (KEP-2307): writes the pod's uid to the status, removes the pod's finalizer,
 * then replaces the uid by an increment of the count. For an Indexed Job, records the index instead, which is idempotent. Returns the Job as
 * last written.
 */
export async function trackJobStatusAndRemoveFinalizers({
  key,
  syncContext,
  status: counts,
  finishCondition,
  releasedPods,
  consistencyStore,
  mayFinish,
  client,
  nowMs,
}: TrackJobStatusOptions): Promise<Job> {
  const { job, indexes, failedIndexes } = syncContext;
  const releasedNow = releasedPods.of(key);
  const pending = syncContext.pending.filter(({ metadata }) => !releasedNow.has(metadata?.uid ?? ''));
  const uidsWithFinalizer = new Set(pending.map(({ metadata }) => metadata?.uid ?? ''));
  const uidsDelayingDeletion = new Set([...syncContext.podsDelayingDeletion.values()].map(({ metadata }) => metadata?.uid));
  let status = flushUncounted(counts, (uid) => uidsWithFinalizer.has(uid));
  const succeeded = [...(status.uncountedTerminatedPods?.succeeded ?? [])];
  const failed = [...(status.uncountedTerminatedPods?.failed ?? [])];
  const known = { succeeded: new Set(succeeded), failed: new Set(failed) };
  const podsToRelease: Pod[] = [];
  let isFull = false;
  for (const pod of pending) {
    const uid = pod.metadata?.uid ?? '';
    const hasSucceeded = pod.status?.phase === 'Succeeded';
    const hasFailed = !hasSucceeded && isFailed(job, pod);
    // when the Job is decided, all pods are released: those that still run count as failed, unless the Job succeeds
    if (!hasSucceeded && !hasFailed && finishCondition === undefined && job.metadata?.deletionTimestamp === undefined) continue;
    const isFailure = hasFailed || (!hasSucceeded && finishCondition?.type === 'FailureTarget');
    // the failure count of this pod must be passed to its replacement, unless there will be none
    if (uidsDelayingDeletion.has(uid) && finishCondition === undefined && job.metadata?.deletionTimestamp === undefined) continue;
    podsToRelease.push(pod);
    if (hasSucceeded && !isIndexed(job) && !known.failed.has(uid) && !known.succeeded.has(uid)) succeeded.push(uid);
    else if (isFailure && !known.failed.has(uid) && (!isIndexed(job) || indexOf(job, pod) !== undefined) && isCountedFailure(job, pod))
      failed.push(uid);
    if (succeeded.length + failed.length >= maxUncounted) {
      isFull = true;
      break;
    }
  }
  status = { ...status, uncountedTerminatedPods: uncountedPods(succeeded, failed) };
  if (isIndexed(job)) {
    status = { ...status, succeeded: indexes.size, completedIndexes: indexes.toString() };
    if (failedIndexes !== undefined) status = { ...status, failedIndexes: failedIndexes.toString() };
  }
  if (finishCondition !== undefined && conditionOf({ status }, finishCondition.type) === undefined)
    status = withCondition(status, { ...finishCondition, status: 'True' }, nowMs);
  let current = await writeStatus(job, { status, consistencyStore, client });
  if (current === undefined) return { ...job, status };
  await releasePods(key, { pods: podsToRelease, releasedPods, client });
  const releasedUids = new Set(podsToRelease.map(({ metadata }) => metadata?.uid ?? ''));
  status = flushUncounted(current.status ?? {}, (uid) => uidsWithFinalizer.has(uid) && !releasedUids.has(uid));
  if (!isFull && mayFinish) status = withFinalCondition(job, status, { finishCondition, syncContext, nowMs });
  current = (await writeStatus(current, { status, consistencyStore, client })) ?? { ...job, status };
  return current;
}

const uncountedPods = (succeeded: readonly string[], failed: readonly string[]): NonNullable<JobStatus['uncountedTerminatedPods']> => ({
  ...(succeeded.length > 0 && { succeeded }),
  ...(failed.length > 0 && { failed }),
});

/** Returns the status in which the uids of pods without finalizer are replaced by increments of the counts. */
function flushUncounted(status: JobStatus, hasFinalizer: (uid: string) => boolean): JobStatus {
  const { succeeded = [], failed = [] } = status.uncountedTerminatedPods ?? {};
  const remaining = { succeeded: succeeded.filter(hasFinalizer), failed: failed.filter(hasFinalizer) };
  if (remaining.succeeded.length === succeeded.length && remaining.failed.length === failed.length) return status;
  return {
    ...status,
    succeeded: (status.succeeded ?? 0) + succeeded.length - remaining.succeeded.length,
    failed: (status.failed ?? 0) + failed.length - remaining.failed.length,
    uncountedTerminatedPods: uncountedPods(remaining.succeeded, remaining.failed),
  };
}

/** Returns the status with the Complete or Failed condition, once no pod runs and all pods are counted. */
function withFinalCondition(
  job: Job,
  status: JobStatus,
  {
    finishCondition,
    syncContext,
    nowMs,
  }: { readonly finishCondition: FinishCondition | undefined; readonly syncContext: SyncJobContext; readonly nowMs: number },
): JobStatus {
  const uncounted = status.uncountedTerminatedPods;
  if (finishCondition === undefined || (uncounted?.succeeded?.length ?? 0) + (uncounted?.failed?.length ?? 0) > 0) return status;
  if ((status.active ?? 0) > 0 || (status.terminating ?? 0) > 0 || syncContext.pods.some((pod) => isTracked(pod) && !isEnded(job, pod)))
    return status;
  const { reason, message } = finishCondition;
  if (finishCondition.type === 'FailureTarget') return withCondition(status, { type: 'Failed', status: 'True', reason, message }, nowMs);
  return { ...withCondition(status, { type: 'Complete', status: 'True', reason, message }, nowMs), completionTime: formatTime(nowMs) };
}
const isEnded = (job: Job, pod: Pod) => pod.status?.phase === 'Succeeded' || isFailed(job, pod);

async function releasePods(
  key: string,
  { pods, releasedPods, client }: { readonly pods: readonly Pod[]; readonly releasedPods: ReleasedPods; readonly client: Client },
): Promise<void> {
  const results = await Promise.allSettled(pods.map((pod) => releasedPods.release(key, pod, client)));
  const rejected = results.find((result) => result.status === 'rejected');
  if (rejected !== undefined) throw rejected.reason;
}

/** Removes the job tracking finalizer of a pod. Returns false if the pod does not exist. */
export async function removeTrackingFinalizer(pod: Pod, client: Client): Promise<boolean> {
  try {
    await client.patch(podResource, objectName(pod), 'strategic', {
      metadata: { uid: pod.metadata?.uid, '$deleteFromPrimitiveList/finalizers': [trackingFinalizer] },
    });
    return true;
  } catch (error) {
    // deleted, or the name belongs to another pod now
    if (!isStatus(error, 'NotFound', 'Invalid', 'Conflict')) throw error;
    if (isStatus(error, 'Conflict')) {
      // the RBAC role of the job controller permits to list pods, not to get them
      const { namespace = '', name } = objectName(pod);
      const { items } = await client.list(podResource, { namespace, fieldSelector: `metadata.name=${name}` });
      if (items[0]?.metadata?.uid === pod.metadata?.uid) throw error;
    }
    return false;
  }
}

/** Writes the status if it differs from the Job's status. Returns undefined if the Job does not exist. */
async function writeStatus(
  job: Job,
  {
    status,
    consistencyStore,
    client,
  }: { readonly status: JobStatus; readonly consistencyStore: ConsistencyStore; readonly client: Client },
): Promise<Job | undefined> {
  if (JSON.stringify(significantFields(job.status)) === JSON.stringify(significantFields(status))) return job;
  try {
    const updated = await client.update(jobs, { ...withTypeMeta(jobs, job), status }, { subresource: 'status' });
    consistencyStore.recordWrite(job, updated);
    return updated;
  } catch (error) {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
/** Returns the fields of a status without zeros and empty values, which are equivalent to absent fields. */
const significantFields = (status: JobStatus = {}) =>
  Object.entries(status)
    .filter(
      ([, value]) => value !== undefined && value !== 0 && value !== '' && JSON.stringify(value) !== '{}' && JSON.stringify(value) !== '[]',
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));
