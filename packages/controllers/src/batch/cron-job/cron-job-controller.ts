import { controllerOf, isControlledBy, objectKey, type ObjectKey } from '@oarlock/api/object';
import { cronJobs, jobs as jobResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { CronJob, CronJobStatus, Job } from '@oarlock/api/types/batch-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { addOwnerIndexes, controlledBy } from '../../ownership/controller-ref-manager.ts';
import { isNamespaceTerminating } from '../../errors/namespace-terminating.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';
import { conditionOf, isFinished } from '../job/finish-condition.ts';
import { byStart, isActive, referenceTo, withoutActiveJob } from './active-jobs.ts';
import { CronJobMetrics } from './cron-job-metrics.ts';
import { jobFromTemplate, jobName } from './job-from-template.ts';
import { InvalidScheduleError, missedSchedules, msUntilNextSchedule, type MissedSchedules } from './missed-schedules.ts';
import { parseSchedule, type Schedule } from './schedule.ts';
import { TimeZone } from './time-zone.ts';

interface CronJobControllerOptions {
  readonly cronJobs: Informer<CronJob>;
  readonly jobs: Informer<Job>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly metrics: CronJobMetrics;
  /** Time zone of CronJobs without `timeZone`. */
  readonly timeZone: string;
}

/** State of one CronJob reconcile; the controller writes `status` when the reconcile ends. */
interface CronJobSync {
  readonly cronJob: CronJob;
  readonly client: Client;
  status: CronJobStatus;
}

/** Creates a Job from each CronJob whenever its schedule is due. */
export class CronJobController implements Controller {
  readonly name = 'cronjob';
  readonly watches;
  readonly #options: CronJobControllerOptions;
  /** CronJobs whose schedule has changed: the next sync starts no Job, since times before the change do not count as missed. */
  readonly #rescheduled = new Set<ObjectKey>();

  constructor(options: CronJobControllerOptions) {
    this.#options = options;
    addOwnerIndexes(options.jobs);
    this.watches = [
      watch(options.cronJobs, (cronJob, old) => {
        const key = objectKey(cronJob);
        if (options.cronJobs.get(key) === undefined) this.#rescheduled.delete(key);
        else if (old !== undefined && isRescheduled(cronJob, old)) this.#rescheduled.add(key);
        return [key];
      }),
      watch(options.jobs, (job, old) =>
        [controllerOf(job), old && controllerOf(old)]
          .filter((ref) => ref?.kind === 'CronJob')
          .map((ref) => `${job.metadata?.namespace}/${ref?.name}`),
      ),
    ];
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const cronJob = this.#options.cronJobs.get(key);
    if (cronJob === undefined) return undefined;
    const sync: CronJobSync = { cronJob, client, status: cronJob.status ?? {} };
    const jobs = controlledBy(this.#options.jobs, cronJob.metadata?.uid ?? '');
    try {
      await this.#syncActiveJobs(sync, jobs);
      const result = await this.#startDueJob(sync, { rescheduled: this.#rescheduled.has(key) });
      this.#rescheduled.delete(key);
      return result;
    } finally {
      // also after a Job could not be created: its quota may be used up by finished Jobs
      await this.#cleanUpFinishedJobs(sync, jobs);
      await this.#writeStatus(sync);
    }
  }

  /** Updates the list of active Jobs in the status. */
  async #syncActiveJobs(sync: CronJobSync, jobs: readonly Job[]): Promise<void> {
    const { cronJob, client } = sync;
    const { recorder } = this.#options;
    const jobUids = new Set(jobs.map(({ metadata }) => metadata?.uid));
    for (const job of jobs) {
      const active = isActive(sync.status, job);
      if (!active && !isFinished(job)) {
        // created by another client with our controller reference, or by this controller before a crash
        const current = await ignoreNotFound(() => client.get(cronJobs, objectName(cronJob)));
        if (current !== undefined && !isActive(current.status ?? {}, job))
          recorder.event(
            cronJob,
            'Warning',
            'UnexpectedJob',
            `Saw a job that the controller did not create or forgot: ${job.metadata?.name}`,
          );
      } else if (active && isFinished(job)) {
        const condition = conditionOf(job, 'Complete') === undefined ? 'Failed' : 'Complete';
        sync.status = withoutActiveJob(sync.status, job.metadata?.uid);
        recorder.event(cronJob, 'Normal', 'SawCompletedJob', `Saw completed job: ${job.metadata?.name}, condition: ${condition}`);
      }
      const completionTime = job.status?.completionTime;
      const lastSuccessMs = parseTime(sync.status.lastSuccessfulTime ?? '') ?? 0;
      if (conditionOf(job, 'Complete') !== undefined && completionTime !== undefined && (parseTime(completionTime) ?? 0) > lastSuccessMs)
        sync.status = { ...sync.status, lastSuccessfulTime: completionTime };
    }
    for (const ref of sync.status.active ?? []) {
      if (jobUids.has(ref.uid)) continue;
      const found = await ignoreNotFound(() => client.get(jobResource, { namespace: ref.namespace ?? '', name: ref.name ?? '' }));
      if (found?.metadata?.uid === ref.uid) continue;
      recorder.event(cronJob, 'Normal', 'MissingJob', `Active job went missing: ${ref.name}`);
      sync.status = withoutActiveJob(sync.status, ref.uid);
    }
  }

  async #startDueJob(sync: CronJobSync, { rescheduled }: { readonly rescheduled: boolean }): Promise<ReconcileResult | undefined> {
    const { cronJob } = sync;
    const { recorder, clock } = this.#options;
    if (cronJob.metadata?.deletionTimestamp !== undefined) return undefined;
    const zone = this.#timeZone(cronJob);
    if (zone === undefined || cronJob.spec.suspend === true) return undefined;
    const schedule = this.#parseSchedule(cronJob, zone);
    if (schedule === undefined) return undefined;
    const now = clock.now();
    // the following steps use the status as it will be written
    const withNewStatus = () => ({ ...cronJob, status: sync.status });
    const missed = this.#missedSchedules(withNewStatus(), schedule, now);
    if (missed === undefined) return undefined;
    if (missed.tooMany && !rescheduled)
      recorder.event(
        cronJob,
        'Warning',
        'TooManyMissedTimes',
        'too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew',
      );
    const { latest } = missed;
    if (latest !== undefined && !rescheduled) {
      const deadline = cronJob.spec.startingDeadlineSeconds;
      if (deadline !== undefined && latest + deadline * 1000 < now)
        recorder.event(
          cronJob,
          'Warning',
          'MissSchedule',
          `Missed scheduled time to start a job: ${new Date(latest).toUTCString().replace('GMT', '+0000')}`,
        );
      else if (parseTime(sync.status.lastScheduleTime ?? '') !== latest) await this.#createJob(sync, latest);
    }
    const ms = msUntilNextSchedule(withNewStatus(), schedule, now);
    return ms === undefined ? undefined : { requeueAfterMs: ms };
  }

  /** Returns undefined for a schedule without due times, which is not reconciled again until the spec changes. */
  #missedSchedules(cronJob: CronJob, schedule: Schedule, nowMs: number): MissedSchedules | undefined {
    try {
      return missedSchedules(cronJob, { schedule, nowMs }, { withDeadline: true });
    } catch (error) {
      if (!(error instanceof InvalidScheduleError)) throw error;
      const message = `invalid schedule: ${cronJob.spec.schedule} : ${error.message}`;
      this.#options.recorder.event(cronJob, 'Warning', 'InvalidSchedule', message);
      return undefined;
    }
  }

  #timeZone(cronJob: CronJob): TimeZone | undefined {
    const { timeZone: named } = cronJob.spec;
    try {
      return new TimeZone(named ?? this.#options.timeZone);
    } catch {
      const message = `invalid timeZone: ${JSON.stringify(named)}: unknown time zone ${named}`;
      this.#options.recorder.event(cronJob, 'Warning', 'UnknownTimeZone', message);
      return undefined;
    }
  }

  #parseSchedule(cronJob: CronJob, zone: TimeZone): Schedule | undefined {
    const { recorder } = this.#options;
    const { schedule, timeZone: named } = cronJob.spec;
    if (schedule.includes('TZ=') && named === undefined)
      recorder.event(
        cronJob,
        'Warning',
        'UnsupportedSchedule',
        `CRON_TZ or TZ used in schedule ${JSON.stringify(schedule)} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`,
      );
    try {
      return parseSchedule(schedule, zone);
    } catch (error) {
      recorder.event(
        cronJob,
        'Warning',
        'UnparseableSchedule',
        `unparseable schedule: ${JSON.stringify(schedule)} : ${(error as Error).message}`,
      );
      return undefined;
    }
  }

  async #createJob(sync: CronJobSync, scheduledMs: number): Promise<void> {
    const { cronJob, client } = sync;
    const { recorder, metrics, clock } = this.#options;
    const name = jobName(cronJob, scheduledMs);
    if (sync.status.active?.some((ref) => ref.name === name)) return;
    if (cronJob.spec.concurrencyPolicy === 'Forbid' && (sync.status.active ?? []).length > 0) {
      recorder.event(
        cronJob,
        'Normal',
        'JobAlreadyActive',
        'Not starting job because prior execution is running and concurrency policy is Forbid',
      );
      return;
    }
    if (cronJob.spec.concurrencyPolicy === 'Replace') {
      for (const ref of sync.status.active ?? [])
        await this.#deleteJob(sync, { namespace: ref.namespace ?? '', name: ref.name ?? '', uid: ref.uid ?? '' });
    }
    const job = jobFromTemplate(cronJob, scheduledMs);
    let created: Job;
    try {
      created = await client.create(jobResource, job);
      metrics.observeCreation(scheduledMs, clock.now());
      recorder.event(cronJob, 'Normal', 'SuccessfulCreate', `Created job ${name}`);
    } catch (error) {
      if (isNamespaceTerminating(error)) return;
      if (!isStatus(error, 'AlreadyExists')) {
        recorder.event(cronJob, 'Warning', 'FailedCreate', `Error creating job: ${(error as Error).message}`);
        throw error;
      }
      // created by this controller before a crash, but not yet in the status
      created = await client.get(jobResource, objectName(job));
      if (!isControlledBy(created, cronJob)) return;
    }
    const active = isFinished(created) ? sync.status.active : [...(sync.status.active ?? []), referenceTo(created)];
    sync.status = { ...sync.status, ...(active && { active }), lastScheduleTime: formatTime(scheduledMs) };
  }

  async #deleteJob(sync: CronJobSync, { namespace, name, uid }: { namespace: string; name: string; uid: string }): Promise<void> {
    const { cronJob, client } = sync;
    const { recorder } = this.#options;
    try {
      await client.delete(jobResource, { namespace, name }, { propagationPolicy: 'Background', preconditions: { uid } });
      recorder.event(cronJob, 'Normal', 'SuccessfulDelete', `Deleted job ${name}`);
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) {
        recorder.event(cronJob, 'Warning', 'FailedDelete', `Deleted job: ${(error as Error).message}`);
        throw error;
      }
    }
    sync.status = withoutActiveJob(sync.status, uid);
  }

  /** Deletes finished Jobs beyond the history limits, oldest first. */
  async #cleanUpFinishedJobs(sync: CronJobSync, jobs: readonly Job[]): Promise<void> {
    const { successfulJobsHistoryLimit, failedJobsHistoryLimit } = sync.cronJob.spec;
    const finished = jobs.filter((job) => isFinished(job) && job.metadata?.deletionTimestamp === undefined);
    const successful = finished.filter((job) => conditionOf(job, 'Complete') !== undefined);
    const limits: readonly (readonly [readonly Job[], number | undefined])[] = [
      [successful, successfulJobsHistoryLimit],
      [finished.filter((job) => !successful.includes(job)), failedJobsHistoryLimit],
    ];
    for (const [group, limit] of limits) {
      if (limit === undefined) continue;
      for (const { metadata } of group.toSorted(byStart).slice(0, Math.max(0, group.length - limit)))
        await this.#deleteJob(sync, { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' });
    }
  }

  async #writeStatus({ cronJob, client, status }: CronJobSync): Promise<void> {
    const comparable = ({ active = [], lastScheduleTime, lastSuccessfulTime }: CronJobStatus) =>
      JSON.stringify([active.map(({ uid }) => uid), lastScheduleTime, lastSuccessfulTime]);
    if (comparable(status) === comparable(cronJob.status ?? {})) return;
    await ignoreNotFound(() => client.update(cronJobs, { ...withTypeMeta(cronJobs, cronJob), status }, { subresource: 'status' }));
  }
}

const isRescheduled = (cronJob: CronJob, old: CronJob) =>
  cronJob.spec.schedule !== old.spec.schedule || cronJob.spec.timeZone !== old.spec.timeZone;

export default Controllers.plugin({
  id: 'controller-cron-job',
  declares: { loop: 'cronjob' },
  config: z.strictObject({
    /** Time zone of CronJobs without `timeZone`. Default: the time zone of this process. */
    timeZone: z.string().min(1).optional(),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock, metrics }) =>
    new CronJobController({
      cronJobs: informers.forResource(cronJobs),
      jobs: informers.forResource(jobResource),
      recorder: events.recorder('cronjob-controller'),
      clock,
      metrics: new CronJobMetrics(metrics),
      get timeZone() {
        // resolving the local time zone loads the ICU data: skipped in clusters without CronJobs
        return config.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
      },
    }),
});
