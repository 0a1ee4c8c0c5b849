import { controllerOf, objectKey, splitKey, type ObjectKey } from '@oarlock/api/object';
import { jobs as jobResource, pods as podResource } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/time';
import type { Job, JobStatus } from '@oarlock/api/types/batch-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { expectPods, Expectations } from '../expectations.ts';
import { ownerKeys } from '../owner-keys.ts';
import { claim, indexByOwner, ownedBy } from '../ownership.ts';
import { PodControl } from '../pod-control.ts';
import { isReady } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { selectorOf, SelectorOwners } from '../selector-owners.ts';
import { Superseded } from '../superseded.ts';
import { jobPod, nextStep } from './job-pods.ts';
import { removeTracking, SettledPods, track, withCondition } from './job-tracker.ts';
import { completionOf, deadlineLeft, isFinished, verdictOf, type Verdict } from './job-verdict.ts';
import { viewOf, type JobView } from './job-view.ts';
import { isTracked, trackingFinalizer } from './pod-outcome.ts';

const self = 'kubernetes.io/job-controller';
const burst = 500; // pods created or deleted in one reconcile, as upstream
const podPrefix = 'pod:'; // no namespace has a colon: keys of pods whose Job is gone

interface Parts {
  readonly jobs: Informer<Job>;
  readonly pods: Informer<Pod>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
}

/** Runs pods until enough of them have succeeded, or too many have failed. */
export class JobController implements Controller {
  readonly name = 'job';
  readonly watches;
  readonly #jobs: Informer<Job>;
  readonly #pods: Informer<Pod>;
  readonly #recorder: EventRecorder;
  readonly #clock: Clock;
  readonly #expectations: Expectations;
  readonly #control: PodControl;
  readonly #settled = new SettledPods();
  readonly #superseded = new Superseded();

  constructor({ jobs, pods, recorder, clock }: Parts) {
    this.#jobs = jobs;
    this.#pods = indexByOwner(pods);
    this.#recorder = recorder;
    this.#clock = clock;
    this.#expectations = new Expectations(clock);
    this.#control = new PodControl(recorder, this.#expectations);
    const candidates = new SelectorOwners(jobs);
    this.watches = [
      watch(jobs, (job) => this.#keysOfJob(job)),
      watch(pods, (pod, old) => {
        const keys = [...ownerKeys('Job', candidates, pod, old)];
        if (isTracked(pod) && this.#isOrphan(pod)) keys.push(`${podPrefix}${objectKey(pod)}`);
        return keys;
      }),
    ];
    expectPods(pods, 'Job', this.#expectations);
    jobs.on({ deleted: ({ metadata }) => this.#superseded.forget(metadata?.uid) });
    const settled = (pod: Pod) => {
      const ref = controllerOf(pod);
      if (ref?.kind === 'Job') this.#settled.seen(`${pod.metadata?.namespace}/${ref.name}`, pod.metadata?.uid ?? '');
    };
    pods.on({
      updated: (pod) => {
        if (!isTracked(pod)) settled(pod);
      },
      deleted: settled,
    });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(podPrefix)) return this.#letOrphanGo(key.slice(podPrefix.length), context.client);
    const job = this.#jobs.get(key);
    if (job === undefined) {
      this.#expectations.forget(key);
      this.#settled.forget(key);
      return undefined;
    }
    const { managedBy } = job.spec ?? {};
    if (this.#superseded.isBehind(job)) return undefined;
    if ((managedBy !== undefined && managedBy !== self) || isFinished(job)) return undefined;
    const { client } = context;
    const satisfied = this.#expectations.met(key);
    const pods = await claim({
      client,
      informer: this.#pods,
      resource: podResource,
      owner: typed(jobResource, job),
      selector: selectorOf(job),
      finalizer: trackingFinalizer,
      confirm: async () => {
        const fresh = await client.get(jobResource, nameOf(job));
        return fresh.metadata?.uid === job.metadata?.uid && fresh.metadata?.deletionTimestamp === undefined;
      },
    });
    const view = viewOf(job, pods, this.#settled.of(key));
    const now = this.#clock.now();
    const suspended = job.spec?.suspend === true;
    let status: JobStatus = {
      ...job.status,
      ...(job.status?.startTime === undefined && !suspended && { startTime: formatTime(now) }),
    };
    let verdict = verdictOf({ ...view, job: { ...job, status } }, now);
    const counts = { active: view.active.length, ready: view.ready, terminating: view.ending };
    let failure: unknown;
    let retryMs: number | undefined;
    if (verdict !== undefined) {
      failure = await this.#removeAll(key, view, counts, client);
    } else if (satisfied && job.metadata?.deletionTimestamp === undefined) {
      ({ failure, retryMs } = await this.#step(key, view, counts, client));
      verdict = completionOf(view, counts.active);
      if (verdict === undefined) status = this.#suspension(job, status, suspended, now);
    } else if (satisfied) verdict = completionOf(view, counts.active);
    status = { ...status, ...counts };
    const written = await track({
      key,
      view,
      status,
      verdict,
      settled: this.#settled,
      superseded: this.#superseded,
      mayFinish: satisfied,
      client,
      nowMs: now,
    });
    if (isFinished(written)) this.#tell(job, written, verdict);
    if (failure !== undefined) throw failure;
    const deadlineMs = isFinished(written) ? undefined : deadlineLeft(written, now);
    const waits = [retryMs, deadlineMs].filter((ms) => ms !== undefined && ms > 0) as number[];
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  /** A Job that goes leaves pods behind whose finalizer nobody else removes. */
  *#keysOfJob(job: Job): Iterable<ObjectKey> {
    const key = objectKey(job);
    yield key;
    if (this.#jobs.get(key)?.metadata?.uid === job.metadata?.uid && !isFinished(job)) return;
    for (const pod of ownedBy(this.#pods, job.metadata?.uid ?? '')) if (isTracked(pod)) yield `${podPrefix}${objectKey(pod)}`;
  }

  #isOrphan(pod: Pod): boolean {
    const ref = controllerOf(pod);
    if (ref === undefined) return true;
    if (ref.kind !== 'Job') return false;
    const job = this.#jobs.get(`${pod.metadata?.namespace}/${ref.name}`);
    return job === undefined || job.metadata?.uid !== ref.uid || isFinished(job);
  }

  async #letOrphanGo(key: ObjectKey, client: Client): Promise<void> {
    const pod = this.#pods.get(key);
    if (pod === undefined || !isTracked(pod) || !this.#isOrphan(pod)) return;
    const ref = controllerOf(pod);
    if (ref?.kind === 'Job') {
      const { namespace = '' } = splitKey(key);
      const job = this.#jobs.get(`${namespace}/${ref.name}`);
      if (job?.metadata?.uid === ref.uid && job.spec?.managedBy !== undefined && job.spec.managedBy !== self) return;
    }
    await removeTracking(pod, client);
  }

  async #removeAll(
    key: ObjectKey,
    { job, active }: JobView,
    counts: { active: number; ready: number; terminating: number },
    client: Client,
  ) {
    if (active.length === 0) return undefined;
    const failure = await this.#control.delete({ key, owner: typed(jobResource, job), client }, active.slice(0, burst));
    // they stop counting as active when the cache shows that they end
    if (failure === undefined) counts.ready -= active.slice(0, burst).filter(isReady).length;
    return failure;
  }

  async #step(key: ObjectKey, view: JobView, counts: { active: number; ready: number; terminating: number }, client: Client) {
    const { job, kept } = view;
    const owner = typed(jobResource, job);
    const { remove, create, retryMs } = nextStep(view, this.#clock.now(), burst);
    let failure: unknown;
    if (remove.length > 0) {
      // what the Job itself takes away has not failed: it is not to be counted
      for (const pod of remove) {
        if (!isTracked(pod)) continue;
        await removeTracking(pod, client);
        this.#settled.add(key, pod.metadata?.uid ?? '');
      }
      failure = await this.#control.delete({ key, owner, client }, remove);
      if (failure === undefined) {
        counts.active -= remove.length;
        counts.ready -= remove.filter(isReady).length;
        counts.terminating += remove.length;
      }
    } else if (create.length > 0) {
      let made = 0;
      failure = await this.#control.create({ key, owner, client }, create.length, (at) => {
        const index = create[at];
        made += 1;
        return jobPod(job, index, index === undefined ? undefined : kept.get(index));
      });
      counts.active += failure === undefined ? made : 0;
    }
    return { failure, retryMs };
  }

  #suspension(job: Job, status: JobStatus, suspended: boolean, now: number): JobStatus {
    const present = status.conditions?.find(({ type }) => type === 'Suspended');
    if (suspended) {
      // no time runs against it, and who resumes it may say anew where its pods go (KEP-5440)
      const { startTime: _stopped, ...resting } = status;
      if (present?.status === 'True') return resting;
      this.#recorder.event(job, 'Normal', 'Suspended', 'Job suspended');
      return withCondition(resting, { type: 'Suspended', status: 'True', reason: 'JobSuspended', message: 'Job suspended' }, now);
    }
    if (present === undefined || present.status === 'False') return status;
    this.#recorder.event(job, 'Normal', 'Resumed', 'Job resumed');
    // the deadline runs from here
    return {
      ...withCondition(status, { type: 'Suspended', status: 'False', reason: 'JobResumed', message: 'Job resumed' }, now),
      startTime: formatTime(now),
    };
  }

  #tell(job: Job, { status }: Job, verdict: Verdict | undefined): void {
    if (verdict?.type === 'FailureTarget') {
      this.#recorder.event(job, 'Warning', verdict.reason, verdict.message);
      return;
    }
    const { completions } = job.spec ?? {};
    if (completions !== undefined && (status?.succeeded ?? 0) > completions)
      this.#recorder.event(job, 'Warning', 'TooManySucceededPods', 'Too many succeeded pods running after completion count reached');
    this.#recorder.event(job, 'Normal', 'Completed', 'Job completed');
  }
}

export default Controllers.plugin({
  id: 'controller-job',
  declares: { loop: 'job' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create: ({ informers, events }, { clock }) =>
    new JobController({
      jobs: informers.of(jobResource),
      pods: informers.of(podResource),
      recorder: events.recorder('job-controller'),
      clock,
    }),
});
