import { jobs } from '@oarlock/api/resources';
import type { Job } from '@oarlock/api/types/batch-v1';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { podFromTemplate } from '../../pods/pod-template.ts';
import { deletionOrder } from '../../apps/replica-set/deletion-order.ts';
import { isTerminating } from '../../pods/pod-state.ts';
import { backoffLeft, jobBackoffLeft, type SyncJobContext } from './sync-job-context.ts';
import {
  failureCountKey,
  failuresOf,
  finishedAt,
  hasLimitPerIndex,
  ignoredCountKey,
  ignoredFailuresOf,
  indexKey,
  indexOf,
  isCountedFailure,
  isIndexed,
  replacesFailedOnly,
  trackingFinalizer,
} from './pod-failure-policy.ts';

const indexVariable = 'JOB_COMPLETION_INDEX';
const withIndex = (container: Container): Container =>
  container.env?.some(({ name }) => name === indexVariable)
    ? container
    : {
        ...container,
        env: [
          ...(container.env ?? []),
          { name: indexVariable, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: `metadata.labels['${indexKey}']` } } },
        ],
      };

/** The length to which the API server truncates `generateName`. */
const maxGeneratedBaseLength = 58;

/** Returns the prefix of pod names. Truncates the name of the Job, so that the names keep the index. */
function generateNameWithIndex(name: string, index: number): string {
  const suffix = `-${index}-`;
  return `${name.slice(0, maxGeneratedBaseLength - suffix.length)}${suffix}`;
}

/** Returns a new pod of the Job with the tracking finalizer. `failedPod` is the failed pod with the same index, which the new pod replaces. */
export function jobPod(job: Job, index: number | undefined, failedPod: Pod | undefined): Pod {
  const pod = podFromTemplate(job.spec?.template, { resource: jobs, owner: job });
  const finalizers = [...(pod.metadata?.finalizers ?? []), trackingFinalizer];
  if (index === undefined) return { ...pod, metadata: { ...pod.metadata, finalizers } };
  const counted = failedPod !== undefined && isCountedFailure(job, failedPod);
  const ignored = failedPod === undefined ? 0 : ignoredFailuresOf(failedPod) + (counted ? 0 : 1);
  const failures = failedPod === undefined ? 0 : failuresOf(failedPod) + (counted ? 1 : 0);
  const counts = hasLimitPerIndex(job)
    ? { [failureCountKey]: String(failures), ...(ignored > 0 && { [ignoredCountKey]: String(ignored) }) }
    : {};
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      generateName: generateNameWithIndex(job.metadata?.name ?? '', index),
      finalizers,
      labels: { ...pod.metadata?.labels, [indexKey]: String(index) },
      annotations: { ...pod.metadata?.annotations, [indexKey]: String(index), ...counts },
    },
    spec: {
      ...pod.spec,
      containers: (pod.spec?.containers ?? []).map(withIndex),
      ...(pod.spec?.initContainers && { initContainers: pod.spec.initContainers.map(withIndex) }),
      hostname: `${job.metadata?.name}-${index}`,
    },
  };
}

export interface JobPodActions {
  readonly remove: readonly Pod[];
  /** Completion indexes of the pods to create; the elements are undefined for a NonIndexed Job. */
  readonly create: readonly (number | undefined)[];
  /** Milliseconds until a backoff ends and further pods can be created. */
  readonly retryDelayMs?: number;
}

/** Returns the pods to create or the pods to delete, never both. */
export function nextPodActions(syncContext: SyncJobContext, nowMs: number, limit: number): JobPodActions {
  const { job, active, succeeded, terminating, failedIndexes } = syncContext;
  const { parallelism = 1, completions, suspend } = job.spec ?? {};
  const noActions: JobPodActions = { remove: [], create: [] };
  if (suspend === true) return { remove: active.slice(0, limit), create: [] };
  const desiredActive =
    completions === undefined
      ? succeeded > 0
        ? active.length
        : parallelism
      : Math.max(0, Math.min(parallelism, completions - succeeded - (failedIndexes?.size ?? 0)));
  const remove = podsToRemove(syncContext, Math.max(0, active.length - desiredActive)).slice(0, limit);
  if (remove.length > 0) return { remove, create: [] };
  const missing = Math.min(desiredActive - active.length - (replacesFailedOnly(job) ? terminating : 0), limit);
  if (missing <= 0) return noActions;
  if (!isIndexed(job)) {
    const retryMs = jobBackoffLeft(syncContext, nowMs);
    return retryMs > 0 ? { ...noActions, retryDelayMs: retryMs } : { remove: [], create: Array.from({ length: missing }) };
  }
  return createIndexes(syncContext, missing, nowMs);
}

function createIndexes(syncContext: SyncJobContext, missing: number, nowMs: number): JobPodActions {
  const { job, pods, active, indexes, failedIndexes, podsDelayingDeletion } = syncContext;
  const perIndex = hasLimitPerIndex(job);
  const jobWaitMs = perIndex ? 0 : jobBackoffLeft(syncContext, nowMs);
  if (jobWaitMs > 0) return { remove: [], create: [], retryDelayMs: jobWaitMs };
  const usedIndexes = new Set(active.map((pod) => indexOf(job, pod)));
  if (replacesFailedOnly(job))
    for (const pod of pods) if (isTerminating(pod) && pod.status?.phase !== 'Failed') usedIndexes.add(indexOf(job, pod));
  const create: number[] = [];
  let retryMs: number | undefined;
  let pending = 0;
  // as upstream, an index in backoff is not overtaken: the lowest pending indexes are considered, not those that could start
  for (let index = 0; index < (job.spec?.completions ?? 0) && pending < missing; index++) {
    if (usedIndexes.has(index) || indexes.has(index) || failedIndexes?.has(index)) continue;
    pending += 1;
    const failedPod = podsDelayingDeletion.get(index);
    const waitMs =
      failedPod === undefined ? 0 : backoffLeft(failuresOf(failedPod) + ignoredFailuresOf(failedPod) + 1, finishedAt(failedPod), nowMs);
    if (waitMs === 0) create.push(index);
    else retryMs = Math.min(retryMs ?? waitMs, waitMs);
  }
  return { remove: [], create, ...(retryMs !== undefined && { retryDelayMs: retryMs }) };
}

/** Returns the pods to delete: pods whose index is completed, duplicate or out of range, then other pods up to `excess`. */
function podsToRemove({ job, active, indexes }: SyncJobContext, excess: number): readonly Pod[] {
  const ranked = excess === 0 && !isIndexed(job) ? [] : deletionOrder(active);
  if (!isIndexed(job)) return ranked.slice(0, excess);
  const seen = new Set<number>();
  const valid: Pod[] = [];
  const invalid: Pod[] = [];
  for (const pod of ranked.toReversed()) {
    const index = indexOf(job, pod);
    if (index === undefined || seen.has(index) || indexes.has(index)) invalid.push(pod);
    else {
      seen.add(index);
      valid.push(pod);
    }
  }
  return [...invalid, ...valid.toReversed().slice(0, Math.max(0, excess - invalid.length))];
}
