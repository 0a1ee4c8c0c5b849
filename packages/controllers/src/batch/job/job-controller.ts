import { controllerOf, objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { jobs as jobResource, pods as podResource } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Job, JobStatus } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { observePods, ControllerExpectations } from '../../expectations/controller-expectations.ts';
import { ownerKeys } from '../../ownership/owner-keys.ts';
import { claimObjects, addOwnerIndexes, controlledBy } from '../../ownership/controller-ref-manager.ts';
import { PodControl } from '../../pods/pod-control.ts';
import { isReady } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { selectorOf, SelectorOwnerIndex } from '../../ownership/selector-owners.ts';
import { ConsistencyStore } from '../../expectations/consistency-store.ts';
import { jobPod, nextPodActions } from './job-pods.ts';
import { removeTrackingFinalizer, ReleasedPods, trackJobStatusAndRemoveFinalizers } from './finalizer-tracking.ts';
import { completionConditionOf, msUntilDeadline, isFinished, finishConditionOf, type FinishCondition } from './finish-condition.ts';
import { JobMetrics, type JobSyncAction } from './job-metrics.ts';
import { buildSyncJobContext, type SyncJobContext } from './sync-job-context.ts';
import { isTracked, trackingFinalizer } from './pod-failure-policy.ts';
import { syncSuspended } from './suspended-status.ts';

const jobControllerName = 'kubernetes.io/job-controller';
const maxPodsPerSync = 500; // pods created or deleted in one reconcile, as upstream
const podPrefix = 'pod:'; // prefix of the keys of orphaned pods; namespaces contain no colon

interface JobControllerOptions {
  readonly jobs: Informer<Job>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly metrics: JobMetrics;
}

/** Returns true if another controller manages the Job through `spec.managedBy` (KEP-4368). */
const isManagedExternally = ({ spec }: Job): boolean => spec?.managedBy !== undefined && spec.managedBy !== jobControllerName;

interface PodCounts {
  active: number;
  ready: number;
  terminating: number;
}

interface PodSyncResult {
  readonly status: JobStatus;
  readonly finishCondition: FinishCondition | undefined;
  readonly failure: unknown;
  /** Milliseconds until a backoff ends; undefined if no backoff is active. */
  readonly retryMs: number | undefined;
  readonly action: JobSyncAction;
}

/** Creates the pods of Jobs until enough pods have succeeded or too many have failed. */
export class JobController implements Controller {
  readonly name = 'job';
  readonly watches;
  readonly #jobs: Informer<Job>;
  readonly #pods: Informer<Pod>;
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;
  readonly #metrics: JobMetrics;
  readonly #expectations: ControllerExpectations;
  readonly #control: PodControl;
  readonly #releasedPods = new ReleasedPods();
  readonly #consistencyStore = new ConsistencyStore();

  constructor({ jobs, pods, recorder, clock, metrics }: JobControllerOptions) {
    this.#jobs = jobs;
    this.#pods = addOwnerIndexes(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.#metrics = metrics;
    this.#expectations = new ControllerExpectations(clock);
    this.#control = new PodControl(recorder, this.#expectations, pods);
    const candidates = new SelectorOwnerIndex(jobs);
    this.watches = [
      watch(jobs, (job) => this.#keysOfJob(job)),
      watch(pods, (pod, old) => {
        const keys = [...ownerKeys('Job', { candidates, object: pod, old })];
        if (isTracked(pod) && this.#isOrphan(pod)) keys.push(`${podPrefix}${objectKey(pod)}`);
        return keys;
      }),
    ];
    observePods(pods, 'Job', this.#expectations);
    jobs.addEventHandler({ onDelete: ({ metadata }) => this.#consistencyStore.forget(metadata?.uid) });
    const observeRelease = (pod: Pod) => {
      const ref = controllerOf(pod);
      if (ref?.kind === 'Job') this.#releasedPods.observed(`${pod.metadata?.namespace}/${ref.name}`, pod.metadata?.uid ?? '');
    };
    pods.addEventHandler({
      onUpdate: (pod) => {
        if (!isTracked(pod)) observeRelease(pod);
      },
      onDelete: observeRelease,
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(podPrefix)) return this.#releaseOrphan(key.slice(podPrefix.length), context.client);
    const job = this.#jobs.get(key);
    if (job === undefined) {
      this.#expectations.deleteExpectations(key);
      this.#releasedPods.forget(key);
      return undefined;
    }
    if (this.#consistencyStore.isStale(job) || isManagedExternally(job) || isFinished(job)) return undefined;
    const startedAt = this.#clock.monotonic();
    const sync: { action: JobSyncAction; failed: boolean } = { action: 'reconciling', failed: true };
    try {
      const result = await this.#syncJob(key, { job, client: context.client, onAction: (action) => (sync.action = action) });
      sync.failed = false;
      return result;
    } finally {
      this.#metrics.observeSync(job, { ...sync, ms: this.#clock.monotonic() - startedAt });
    }
  }

  async #syncJob(
    key: ObjectKey,
    { job, client, onAction }: { readonly job: Job; readonly client: Client; onAction(action: JobSyncAction): void },
  ): Promise<ReconcileResult | undefined> {
    await this.#control.resolveOutcome({ key, owner: job, client }, selectorOf(job));
    const expectationsSatisfied = this.#expectations.satisfied(key);
    const released = this.#releasedPods.of(key);
    const syncContext = buildSyncJobContext(job, await this.#claimPods(job, client), released);
    const nowMs = this.#clock.now();
    const result = await this.#syncPods(key, syncContext, { expectationsSatisfied, nowMs, client });
    onAction(result.action);
    const updated = await trackJobStatusAndRemoveFinalizers({
      key,
      syncContext,
      status: result.status,
      finishCondition: result.finishCondition,
      releasedPods: this.#releasedPods,
      consistencyStore: this.#consistencyStore,
      mayFinish: expectationsSatisfied,
      client,
      nowMs,
    });
    this.#metrics.countFinishedPods(job, updated);
    if (isFinished(updated)) this.#recordFinish(job, updated, result.finishCondition);
    if (result.failure !== undefined) throw result.failure;
    const deadlineMs = isFinished(updated) ? undefined : msUntilDeadline(updated, nowMs);
    const waits = [result.retryMs, deadlineMs].filter((ms) => ms !== undefined && ms > 0) as number[];
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  #claimPods(job: Job, client: Client): Promise<readonly Pod[]> {
    return claimObjects({
      client,
      informer: this.#pods,
      resource: podResource,
      owner: withTypeMeta(jobResource, job),
      selector: selectorOf(job),
      finalizer: trackingFinalizer,
      canAdopt: async () => {
        const fresh = await client.get(jobResource, objectName(job));
        return fresh.metadata?.uid === job.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
      },
    });
  }

  /** Creates or deletes pods. Returns the status with the current counts, the condition that finishes the Job if any, and an error or a delay. */
  async #syncPods(
    key: ObjectKey,
    syncContext: SyncJobContext,
    { expectationsSatisfied, nowMs, client }: { readonly expectationsSatisfied: boolean; readonly nowMs: number; readonly client: Client },
  ): Promise<PodSyncResult> {
    const { job } = syncContext;
    const suspended = job.spec?.suspend === true;
    const counts = { active: syncContext.active.length, ready: syncContext.ready, terminating: syncContext.terminating };
    let status: JobStatus = {
      ...job.status,
      ...(job.status?.startTime === undefined && !suspended && { startTime: formatTime(nowMs) }),
    };
    let finishCondition = finishConditionOf({ ...syncContext, job: { ...job, status } }, nowMs);
    let failure: unknown;
    let retryMs: number | undefined;
    let action: JobSyncAction = 'reconciling';
    if (finishCondition !== undefined) {
      failure = await this.#deleteAllPods(key, { context: syncContext, counts, client });
    } else if (expectationsSatisfied && job.metadata?.deletionTimestamp === undefined) {
      ({ failure, retryMs, action } = await this.#manageJob(key, { syncContext, counts, client }));
      finishCondition = completionConditionOf(syncContext, counts.active);
      if (finishCondition === undefined) status = syncSuspended(job, { status, suspended, nowMs, recorder: this.#recorder });
    } else if (expectationsSatisfied) finishCondition = completionConditionOf(syncContext, counts.active);
    return { status: { ...status, ...counts }, finishCondition, failure, retryMs, action };
  }

  /** Yields the key of the Job. If the Job is finished or deleted, also yields the keys of its pods, whose tracking finalizers must be removed. */
  *#keysOfJob(job: Job): Iterable<ObjectKey> {
    const key = objectKey(job);
    yield key;
    if (this.#jobs.get(key)?.metadata?.uid === job.metadata?.uid && !isFinished(job)) return;
    for (const pod of controlledBy(this.#pods, job.metadata?.uid ?? '')) if (isTracked(pod)) yield `${podPrefix}${objectKey(pod)}`;
  }

  #isOrphan(pod: Pod): boolean {
    const ref = controllerOf(pod);
    if (ref === undefined) return true;
    if (ref.kind !== 'Job') return false;
    const job = this.#jobs.get(`${pod.metadata?.namespace}/${ref.name}`);
    return job === undefined || job.metadata?.uid !== ref.uid || isFinished(job);
  }

  async #releaseOrphan(key: ObjectKey, client: Client): Promise<void> {
    const pod = this.#pods.get(key);
    if (pod === undefined || !isTracked(pod) || !this.#isOrphan(pod)) return;
    const ref = controllerOf(pod);
    if (ref?.kind === 'Job') {
      const { namespace = '' } = splitKey(key);
      const job = this.#jobs.get(`${namespace}/${ref.name}`);
      if (job?.metadata?.uid === ref.uid && isManagedExternally(job)) return;
    }
    await removeTrackingFinalizer(pod, client);
  }

  async #deleteAllPods(
    key: ObjectKey,
    { context: { job, active }, counts, client }: { readonly context: SyncJobContext; readonly counts: PodCounts; readonly client: Client },
  ) {
    if (active.length === 0) return undefined;
    const remove = active.slice(0, maxPodsPerSync);
    const failure = await this.#control.delete({ key, owner: withTypeMeta(jobResource, job), client }, remove);
    if (failure === undefined) moveToTerminating(counts, remove);
    return failure;
  }

  async #manageJob(
    key: ObjectKey,
    { syncContext, counts, client }: { readonly syncContext: SyncJobContext; readonly counts: PodCounts; readonly client: Client },
  ) {
    const { job, podsDelayingDeletion } = syncContext;
    const owner = withTypeMeta(jobResource, job);
    const { remove, create, retryDelayMs: retryMs } = nextPodActions(syncContext, this.#clock.now(), maxPodsPerSync);
    let failure: unknown;
    let action: JobSyncAction = 'tracking';
    if (remove.length > 0) {
      action = 'pods_deleted';
      // pods deleted by the controller must not be counted as failed
      for (const pod of remove) if (isTracked(pod)) await this.#releasedPods.release(key, pod, client);
      failure = await this.#control.delete({ key, owner, client }, remove);
      if (failure === undefined) moveToTerminating(counts, remove);
    } else if (create.length > 0) {
      action = 'pods_created';
      let created = 0;
      failure = await this.#control.create({ key, owner, client }, create.length, (at) => {
        const index = create[at];
        created += 1;
        return jobPod(job, index, index === undefined ? undefined : podsDelayingDeletion.get(index));
      });
      counts.active += failure === undefined ? created : 0;
    }
    return { failure, retryMs, action };
  }

  #recordFinish(job: Job, updated: Job, finishCondition: FinishCondition | undefined): void {
    this.#metrics.countFinishedJob(updated);
    if (finishCondition?.type === 'FailureTarget') {
      this.#recorder.event(job, 'Warning', finishCondition.reason, finishCondition.message);
      return;
    }
    const { completions } = job.spec ?? {};
    if (completions !== undefined && (updated.status?.succeeded ?? 0) > completions)
      this.#recorder.event(job, 'Warning', 'TooManySucceededPods', 'Too many succeeded pods running after completion count reached');
    this.#recorder.event(job, 'Normal', 'Completed', 'Job completed');
  }
}

/** Updates the counts after the deletion of active pods, which the cache may not show yet. */
function moveToTerminating(counts: PodCounts, deleted: readonly Pod[]): void {
  counts.active -= deleted.length;
  counts.ready -= deleted.filter(isReady).length;
  counts.terminating += deleted.length;
}

export default Controllers.plugin({
  id: 'controller-job',
  declares: { loop: 'job' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock, metrics }) =>
    new JobController({
      jobs: informers.forResource(jobResource),
      pods: informers.forResource(podResource),
      recorder: events.recorder('job-controller'),
      clock,
      metrics: new JobMetrics(metrics),
    }),
});
