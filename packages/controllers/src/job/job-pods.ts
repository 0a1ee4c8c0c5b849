import { jobs } from '@oarlock/api/resources';
import type { Job } from '@oarlock/api/types/batch-v1';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { podFromTemplate } from '../pod-template.ts';
import { deletionOrder } from '../replica-set/deletion-order.ts';
import { isTerminating } from '../pod-state.ts';
import { backoffLeft, jobBackoffLeft, type JobView } from './job-view.ts';
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
} from './pod-outcome.ts';

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

/** A pod of the Job, tracked by its finalizer; of an Indexed Job for one index. */
export function jobPod(job: Job, index: number | undefined, former: Pod | undefined): Pod {
  const pod = podFromTemplate(job.spec?.template, jobs, job);
  const finalizers = [...(pod.metadata?.finalizers ?? []), trackingFinalizer];
  if (index === undefined) return { ...pod, metadata: { ...pod.metadata, finalizers } };
  const counted = former !== undefined && isCountedFailure(job, former);
  const ignored = former === undefined ? 0 : ignoredFailuresOf(former) + (counted ? 0 : 1);
  const failures = former === undefined ? 0 : failuresOf(former) + (counted ? 1 : 0);
  const counts = hasLimitPerIndex(job)
    ? { [failureCountKey]: String(failures), ...(ignored > 0 && { [ignoredCountKey]: String(ignored) }) }
    : {};
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      generateName: `${job.metadata?.name}-${index}-`,
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

export interface JobStep {
  readonly remove: readonly Pod[];
  /** Indexes to make pods for; undefined ones for a Job without indexes. */
  readonly create: readonly (number | undefined)[];
  /** Come back for what has to wait. */
  readonly retryMs?: number;
}

/** Which pods to make or to remove, never both at once. */
export function nextStep(view: JobView, nowMs: number, most: number): JobStep {
  const { job, active, succeeded, ending, failedIndexes } = view;
  const { parallelism = 1, completions, suspend } = job.spec ?? {};
  const nothing: JobStep = { remove: [], create: [] };
  if (suspend === true) return { remove: active.slice(0, most), create: [] };
  const wanted =
    completions === undefined
      ? succeeded > 0
        ? active.length
        : parallelism
      : Math.max(0, Math.min(parallelism, completions - succeeded - (failedIndexes?.size ?? 0)));
  const remove = removable(view, Math.max(0, active.length - wanted), nowMs).slice(0, most);
  if (remove.length > 0) return { remove, create: [] };
  const missing = Math.min(wanted - active.length - (replacesFailedOnly(job) ? ending : 0), most);
  if (missing <= 0) return nothing;
  if (!isIndexed(job)) {
    const retryMs = jobBackoffLeft(view, nowMs);
    return retryMs > 0 ? { ...nothing, retryMs } : { remove: [], create: Array.from({ length: missing }) };
  }
  return createIndexes(view, missing, nowMs);
}

function createIndexes(view: JobView, missing: number, nowMs: number): JobStep {
  const { job, pods, active, indexes, failedIndexes, kept } = view;
  const perIndex = hasLimitPerIndex(job);
  const jobWaitMs = perIndex ? 0 : jobBackoffLeft(view, nowMs);
  if (jobWaitMs > 0) return { remove: [], create: [], retryMs: jobWaitMs };
  const taken = new Set(active.map((pod) => indexOf(job, pod)));
  if (replacesFailedOnly(job))
    for (const pod of pods) if (isTerminating(pod) && pod.status?.phase !== 'Failed') taken.add(indexOf(job, pod));
  const create: number[] = [];
  let retryMs: number | undefined;
  for (let index = 0; index < (job.spec?.completions ?? 0) && create.length < missing; index++) {
    if (taken.has(index) || indexes.has(index) || failedIndexes?.has(index)) continue;
    const former = kept.get(index);
    const waitMs = former === undefined ? 0 : backoffLeft(failuresOf(former) + ignoredFailuresOf(former) + 1, finishedAt(former), nowMs);
    if (waitMs === 0) create.push(index);
    else retryMs = Math.min(retryMs ?? waitMs, waitMs);
  }
  return { remove: [], create, ...(retryMs !== undefined && { retryMs }) };
}

/** Pods whose index is done, repeated or out of range go in any case; then as many as are too many. */
function removable({ job, active, indexes }: JobView, tooMany: number, nowMs: number): readonly Pod[] {
  const ranked = tooMany === 0 && !isIndexed(job) ? [] : deletionOrder(active, new Map(), nowMs);
  if (!isIndexed(job)) return ranked.slice(0, tooMany);
  const seen = new Set<number>();
  const sound: Pod[] = [];
  const odd: Pod[] = [];
  for (const pod of ranked.toReversed()) {
    const index = indexOf(job, pod);
    if (index === undefined || seen.has(index) || indexes.has(index)) odd.push(pod);
    else {
      seen.add(index);
      sound.push(pod);
    }
  }
  return [...odd, ...sound.toReversed().slice(0, Math.max(0, tooMany - odd.length))];
}
