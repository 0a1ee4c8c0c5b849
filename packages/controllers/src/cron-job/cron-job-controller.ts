import { controllerOf, controllerRef, objectKey, type ObjectKey } from '@oarlock/api/object';
import { cronJobs, jobs as jobResource } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { CronJob, CronJobStatus, Job } from '@oarlock/api/types/batch-v1';
import type { ObjectReference } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { indexByOwner, ownedBy } from '../ownership.ts';
import { isNamespaceTerminating, nameOf, typed } from '../pod-template.ts';
import { conditionOf, isFinished } from '../job/job-verdict.ts';
import { missedTimes, untilNext } from './missed-times.ts';
import { parseSchedule, type Schedule } from './schedule.ts';
import { TimeZone } from './time-zone.ts';

const scheduledAt = 'batch.kubernetes.io/cronjob-scheduled-timestamp';

interface Parts {
  readonly cronJobs: Informer<CronJob>;
  readonly jobs: Informer<Job>;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  /** Of schedules that name none. */
  readonly timeZone: string;
}

/** One CronJob at work: its status as it will be written. */
interface Look {
  readonly cronJob: CronJob;
  readonly client: Client;
  status: CronJobStatus;
}

/** Makes a Job whenever a schedule is due. */
export class CronJobController implements Controller {
  readonly name = 'cronjob';
  readonly watches;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
    indexByOwner(parts.jobs);
    this.watches = [
      watch(parts.cronJobs, (cronJob) => [objectKey(cronJob)]),
      watch(parts.jobs, (job, old) =>
        [controllerOf(job), old && controllerOf(old)]
          .filter((ref) => ref?.kind === 'CronJob')
          .map((ref) => `${job.metadata?.namespace}/${ref?.name}`),
      ),
    ];
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const cronJob = this.#parts.cronJobs.get(key);
    if (cronJob === undefined) return undefined;
    const look: Look = { cronJob, client, status: cronJob.status ?? {} };
    const jobs = ownedBy(this.#parts.jobs, cronJob.metadata?.uid ?? '');
    let left: ReconcileResult | undefined;
    try {
      await this.#follow(look, jobs);
      left = await this.#start(look);
    } finally {
      await this.#writeStatus(look);
    }
    await this.#cleanUp(look, jobs);
    return left;
  }

  /** Brings the list of active jobs up to date. */
  async #follow(look: Look, jobs: readonly Job[]): Promise<void> {
    const { cronJob, client } = look;
    const { recorder } = this.#parts;
    const known = new Set(jobs.map(({ metadata }) => metadata?.uid));
    for (const job of jobs) {
      const active = isActive(look.status, job);
      if (!active && !isFinished(job)) {
        // made by somebody else under our name, or by us just before we were cut off
        const fresh = await client.get(cronJobs, nameOf(cronJob)).catch(ignoreGone);
        if (fresh !== undefined && !isActive(fresh.status ?? {}, job))
          recorder.event(
            cronJob,
            'Warning',
            'UnexpectedJob',
            `Saw a job that the controller did not create or forgot: ${job.metadata?.name}`,
          );
      } else if (active && isFinished(job)) {
        const how = conditionOf(job, 'Complete') === undefined ? 'Failed' : 'Complete';
        look.status = without(look.status, job.metadata?.uid);
        recorder.event(cronJob, 'Normal', 'SawCompletedJob', `Saw completed job: ${job.metadata?.name}, condition: ${how}`);
      }
      const done = job.status?.completionTime;
      const before = parseTime(look.status.lastSuccessfulTime ?? '') ?? 0;
      if (conditionOf(job, 'Complete') !== undefined && done !== undefined && (parseTime(done) ?? 0) > before)
        look.status = { ...look.status, lastSuccessfulTime: done };
    }
    for (const ref of look.status.active ?? []) {
      if (known.has(ref.uid)) continue;
      const found = await client.get(jobResource, { namespace: ref.namespace ?? '', name: ref.name ?? '' }).catch(ignoreGone);
      if (found?.metadata?.uid === ref.uid) continue;
      recorder.event(cronJob, 'Normal', 'MissingJob', `Active job went missing: ${ref.name}`);
      look.status = without(look.status, ref.uid);
    }
  }

  async #start(look: Look): Promise<ReconcileResult | undefined> {
    const { cronJob } = look;
    const { recorder, clock } = this.#parts;
    if (cronJob.metadata?.deletionTimestamp !== undefined) return undefined;
    const plan = this.#schedule(cronJob);
    if (plan === undefined || cronJob.spec.suspend === true) return undefined;
    const now = clock.now();
    // what is asked below is asked of the status as it will be
    const current = () => ({ ...cronJob, status: look.status });
    const missed = missedTimes(current(), plan.schedule, now, { withDeadline: true });
    if (missed.tooMany)
      recorder.event(
        cronJob,
        'Warning',
        'TooManyMissedTimes',
        'too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew',
      );
    const { latest } = missed;
    if (latest !== undefined) {
      const deadline = cronJob.spec.startingDeadlineSeconds;
      if (deadline !== undefined && latest + deadline * 1000 < now)
        recorder.event(
          cronJob,
          'Warning',
          'MissSchedule',
          `Missed scheduled time to start a job: ${new Date(latest).toUTCString().replace('GMT', '+0000')}`,
        );
      else if (parseTime(look.status.lastScheduleTime ?? '') !== latest) await this.#startAt(look, latest, plan.zone);
    }
    const ms = untilNext(current(), plan.schedule, now);
    return ms === undefined ? undefined : { requeueAfterMs: ms };
  }

  #schedule(cronJob: CronJob): { readonly schedule: Schedule; readonly zone: TimeZone } | undefined {
    const { recorder } = this.#parts;
    const { schedule, timeZone: named } = cronJob.spec;
    let zone: TimeZone;
    try {
      zone = new TimeZone(named ?? this.#parts.timeZone);
    } catch {
      recorder.event(cronJob, 'Warning', 'UnknownTimeZone', `invalid timeZone: ${JSON.stringify(named)}: unknown time zone ${named}`);
      return undefined;
    }
    if (schedule.includes('TZ=') && named === undefined)
      recorder.event(
        cronJob,
        'Warning',
        'UnsupportedSchedule',
        `CRON_TZ or TZ used in schedule ${JSON.stringify(schedule)} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`,
      );
    try {
      return { schedule: parseSchedule(schedule, zone), zone };
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

  async #startAt(look: Look, time: number, zone: TimeZone): Promise<void> {
    const { cronJob, client } = look;
    const { recorder } = this.#parts;
    const name = `${cronJob.metadata?.name}-${Math.floor(time / 60_000)}`;
    if (look.status.active?.some((ref) => ref.name === name)) return;
    if (cronJob.spec.concurrencyPolicy === 'Forbid' && (look.status.active ?? []).length > 0) {
      recorder.event(
        cronJob,
        'Normal',
        'JobAlreadyActive',
        'Not starting job because prior execution is running and concurrency policy is Forbid',
      );
      return;
    }
    if (cronJob.spec.concurrencyPolicy === 'Replace') {
      for (const ref of look.status.active ?? [])
        await this.#delete(look, { namespace: ref.namespace ?? '', name: ref.name ?? '', uid: ref.uid ?? '' });
    }
    const { metadata, spec } = cronJob.spec.jobTemplate;
    const owner = typed(cronJobs, cronJob);
    const wanted: Job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        name,
        namespace: cronJob.metadata?.namespace ?? '',
        ...(metadata?.labels && { labels: metadata.labels }),
        annotations: { ...metadata?.annotations, [scheduledAt]: zone.format(time) },
        ownerReferences: [controllerRef(owner)],
      },
      ...(spec && { spec }),
    };
    let made: Job;
    try {
      made = await client.create(jobResource, wanted);
      recorder.event(cronJob, 'Normal', 'SuccessfulCreate', `Created job ${name}`);
    } catch (error) {
      if (isNamespaceTerminating(error)) return;
      if (!isStatus(error, 'AlreadyExists')) {
        recorder.event(cronJob, 'Warning', 'FailedCreate', `Error creating job: ${(error as Error).message}`);
        throw error;
      }
      // ours, if we were cut off before it was in the status
      made = await client.get(jobResource, nameOf(wanted));
      if (controllerOf(made)?.uid !== cronJob.metadata?.uid) return;
    }
    const ref: ObjectReference = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      name,
      namespace: made.metadata?.namespace ?? '',
      uid: made.metadata?.uid ?? '',
      resourceVersion: made.metadata?.resourceVersion ?? '',
    };
    const active = isFinished(made) ? look.status.active : [...(look.status.active ?? []), ref];
    look.status = { ...look.status, ...(active && { active }), lastScheduleTime: formatTime(time) };
  }

  async #delete(look: Look, { namespace, name, uid }: { namespace: string; name: string; uid: string }): Promise<void> {
    const { cronJob, client } = look;
    const { recorder } = this.#parts;
    try {
      await client.delete(jobResource, { namespace, name }, { propagationPolicy: 'Background', preconditions: { uid } });
      recorder.event(cronJob, 'Normal', 'SuccessfulDelete', `Deleted job ${name}`);
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) {
        recorder.event(cronJob, 'Warning', 'FailedDelete', `Deleted job: ${(error as Error).message}`);
        throw error;
      }
    }
    look.status = without(look.status, uid);
  }

  /** Finished jobs beyond the limits go, the oldest first. */
  async #cleanUp(look: Look, jobs: readonly Job[]): Promise<void> {
    const { successfulJobsHistoryLimit, failedJobsHistoryLimit } = look.cronJob.spec;
    const finished = jobs.filter((job) => isFinished(job) && job.metadata?.deletionTimestamp === undefined);
    const done = finished.filter((job) => conditionOf(job, 'Complete') !== undefined);
    const limits: readonly (readonly [readonly Job[], number | undefined])[] = [
      [done, successfulJobsHistoryLimit],
      [finished.filter((job) => !done.includes(job)), failedJobsHistoryLimit],
    ];
    for (const [some, limit] of limits) {
      if (limit === undefined) continue;
      for (const { metadata } of some.toSorted(byStart).slice(0, Math.max(0, some.length - limit)))
        await this.#delete(look, { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' });
    }
  }

  async #writeStatus({ cronJob, client, status }: Look): Promise<void> {
    const text = ({ active = [], lastScheduleTime, lastSuccessfulTime }: CronJobStatus) =>
      JSON.stringify([active.map(({ uid }) => uid), lastScheduleTime, lastSuccessfulTime]);
    if (text(status) === text(cronJob.status ?? {})) return;
    await client.update(cronJobs, { ...typed(cronJobs, cronJob), status }, { subresource: 'status' }).catch(ignoreGone);
  }
}

const isActive = ({ active = [] }: CronJobStatus, { metadata }: Job) => active.some(({ uid }) => uid === metadata?.uid);
function without(status: CronJobStatus, uid: string | undefined): CronJobStatus {
  const { active = [], ...rest } = status;
  const left = active.filter((ref) => ref.uid !== uid);
  return { ...rest, ...(left.length > 0 && { active: left }) };
}
const startOf = ({ metadata, status }: Job) => status?.startTime ?? metadata?.creationTimestamp ?? '';
const byStart = (a: Job, b: Job) =>
  startOf(a) !== startOf(b) ? (startOf(a) < startOf(b) ? -1 : 1) : (a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1;

function ignoreGone(error: unknown): undefined {
  if (isStatus(error, 'NotFound')) return undefined;
  throw error;
}

export default Controllers.plugin({
  id: 'controller-cron-job',
  declares: { loop: 'cronjob' },
  config: z.strictObject({
    /** Of schedules that name none; by default the zone of this process. */
    timeZone: z.string().min(1).optional(),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new CronJobController({
      cronJobs: informers.of(cronJobs),
      jobs: informers.of(jobResource),
      recorder: events.recorder('cronjob-controller'),
      clock,
      get timeZone() {
        // the first question about zones reads all of them: a cluster without CronJobs does not ask
        return config.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
      },
    }),
});
