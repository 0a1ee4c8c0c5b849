import { cronJobs, jobs } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { CronJob, CronJobSpec, Job } from '@oarlock/api/types/batch-v1';
import cronJob from '@oarlock/controllers/batch/cron-job/cron-job-controller';
import { parseSchedule } from '@oarlock/controllers/batch/cron-job/schedule';
import { TimeZone } from '@oarlock/controllers/batch/cron-job/time-zone';
import ttl from '@oarlock/controllers/batch/ttl-after-finished/ttl-after-finished-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named, type RunningControllers } from '../../support/running-controllers.ts';

const make = (more: Partial<CronJobSpec> = {}): CronJob => ({
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  metadata: { namespace: 'd', name: 'tick' },
  spec: {
    schedule: '*/1 * * * *',
    jobTemplate: {
      metadata: { labels: { app: 'tick' } },
      spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a:1' }] } } },
    },
    ...more,
  },
});
const utc = { options: { config: { timeZone: 'UTC' } } };
const start = async (spec: CronJob): Promise<RunningControllers> => {
  const life = await runControllers([cronJob], utc);
  await life.api.client().create(cronJobs, spec);
  await life.clock.settle();
  return life;
};
const all = (api: MemoryApi) => api.objects(jobs, 'd');
const status = (api: MemoryApi) => api.object(cronJobs, at('tick'))?.status;
const finish = async (api: MemoryApi, job: Job, time: number, type = 'Complete') => {
  const now = formatTime(time);
  const condition = { type, status: 'True', lastTransitionTime: now };
  await api
    .client()
    .update(
      jobs,
      { ...job, status: { startTime: now, conditions: [condition], ...(type === 'Complete' && { completionTime: now }) } },
      { subresource: 'status' },
    );
};
const minute = 60_000;

describe('CronJobController', () => {
  it('creates a Job named after the minute when it is due, and tracks it until it finishes', async () => {
    const life = await start(make());
    const { api, clock } = life;
    await clock.advance(minute + 200);
    const due = Math.floor(clock.now() / minute);
    expect(named(all(api))).toEqual([`tick-${due}`]);
    const [job] = all(api);
    expect(job?.metadata).toMatchObject({
      labels: { app: 'tick' },
      annotations: { 'batch.kubernetes.io/cronjob-scheduled-timestamp': formatTime(due * minute) },
      ownerReferences: [{ kind: 'CronJob', name: 'tick', controller: true }],
    });
    expect(status(api)).toMatchObject({ lastScheduleTime: formatTime(due * minute), active: [{ kind: 'Job', name: `tick-${due}` }] });
    await finish(api, job as Job, clock.now());
    await clock.settle();
    expect(status(api)?.active ?? []).toEqual([]);
    expect(status(api)?.lastSuccessfulTime).toBe(formatTime(clock.now()));
    expect(life.messages('SuccessfulCreate')).toEqual([`Created job tick-${due}`]);
    expect(life.messages('SawCompletedJob')).toEqual([`Saw completed job: tick-${due}, condition: Complete`]);
  });

  it('should schedule multiple jobs concurrently', async () => {
    const { api, clock } = await start(make());
    await clock.advance(3 * minute + 200);
    expect(all(api)).toHaveLength(3);
    expect(status(api)?.active).toHaveLength(3);
  });

  it('should not schedule new jobs when ForbidConcurrent', async () => {
    const life = await start(make({ concurrencyPolicy: 'Forbid' }));
    const { api, clock } = life;
    await clock.advance(3 * minute + 200);
    expect(all(api)).toHaveLength(1);
    expect(life.reasons()).toContain('JobAlreadyActive');
    await finish(api, all(api)[0] as Job, clock.now());
    await clock.settle();
    // starts the missed run afterwards
    expect(all(api)).toHaveLength(2);
  });

  it('should replace jobs when ReplaceConcurrent', async () => {
    const { api, clock } = await start(make({ concurrencyPolicy: 'Replace' }));
    await clock.advance(minute + 200);
    const first = named(all(api));
    await clock.advance(minute);
    expect(all(api)).toHaveLength(1);
    expect(named(all(api))).not.toEqual(first);
    expect(status(api)?.active).toHaveLength(1);
  });

  it('removes finished Jobs beyond the limit also if no Job can be created', async () => {
    const life = await start(make({ successfulJobsHistoryLimit: 0 }));
    const { api, clock } = life;
    await clock.advance(minute + 200);
    const [first] = all(api);
    const create = api.handler.handle.bind(api.handler);
    api.handler.handle = (request, ...rest) => {
      if (request.verb === 'create' && request.resource.resource === 'jobs') return Promise.reject(failure('Forbidden', 'exceeded quota'));
      return create(request, ...rest);
    };
    await clock.advance(minute);
    await finish(api, first as Job, clock.now());
    await clock.settle();
    expect(life.messages('FailedCreate')[0]).toBe('Error creating job: exceeded quota');
    expect(all(api)).toEqual([]);
  });

  it.each([
    ['schedule', { schedule: '* * * * *' }],
    ['time zone', { schedule: '*/30 * * * *', timeZone: 'Asia/Kathmandu' }],
  ])('starts no Job for times before a change of its %s', async (_field, change) => {
    const life = await start(make({ schedule: '0 0 1 1 *' }));
    const { api, clock } = life;
    await clock.advance(150 * minute);
    expect(all(api)).toEqual([]);
    await api.client().patch(cronJobs, at('tick'), 'merge', { spec: change });
    await clock.settle();
    expect(all(api)).toEqual([]);
    expect(life.messages('TooManyMissedTimes')).toEqual([]);
    await clock.advance(30 * minute + 200);
    expect(all(api).length).toBeGreaterThan(0);
    const scheduled = all(api).map(({ metadata }) =>
      Date.parse(metadata?.annotations?.['batch.kubernetes.io/cronjob-scheduled-timestamp'] ?? ''),
    );
    expect(Math.min(...scheduled)).toBeGreaterThan(clock.now() - 30 * minute - 200);
  });

  it('writes the scheduled time in UTC unless it has a time zone', async () => {
    const stamp = async (timeZone: string | undefined) => {
      const { api, clock } = await runControllers([cronJob], { options: { config: { timeZone: 'Asia/Kathmandu' } } });
      await api.client().create(cronJobs, make(timeZone === undefined ? {} : { timeZone }));
      await clock.advance(minute + 200);
      return all(api)[0]?.metadata?.annotations?.['batch.kubernetes.io/cronjob-scheduled-timestamp'];
    };
    expect(await stamp(undefined)).toMatch(/:00Z$/);
    expect(await stamp('Asia/Kathmandu')).toMatch(/:00\+05:45$/);
  });

  it('should not schedule jobs when suspended', async () => {
    const { api, clock } = await start(make({ suspend: true }));
    await clock.advance(5 * minute);
    expect(all(api)).toEqual([]);
  });

  it('starts the last of many missed runs and reports that there were many', async () => {
    const life = await runControllers([cronJob], {
      ...utc,
      seed: (api, clock) => {
        api.seed(cronJobs, { ...make(), metadata: { ...make().metadata, creationTimestamp: formatTime(clock.now() - 500 * minute) } });
      },
    });
    expect(all(life.api)).toHaveLength(1);
    expect(status(life.api)?.lastScheduleTime).toBe(formatTime(life.clock.now()));
    expect(life.reasons()).toContain('TooManyMissedTimes');
  });

  it('does not start a run after its starting deadline', async () => {
    const life = await runControllers([cronJob], {
      ...utc,
      seed: (api, clock) => {
        const spec = make({ schedule: '0 * * * *', startingDeadlineSeconds: 60 });
        api.seed(cronJobs, { ...spec, metadata: { ...spec.metadata, creationTimestamp: formatTime(clock.now() - 30 * minute) } });
      },
    });
    const { api, clock } = life;
    await clock.settle();
    expect(all(api)).toHaveLength(1);
    await api.client().patch(cronJobs, at('tick'), 'merge', { spec: { suspend: true } });
    await clock.advance(90 * minute);
    await api.client().patch(cronJobs, at('tick'), 'merge', { spec: { suspend: false } });
    await clock.settle();
    expect(all(api)).toHaveLength(1);
  });

  it('keeps finished Jobs up to the history limits', async () => {
    const { api, clock } = await start(make({ successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 0 }));
    for (let round = 0; round < 3; round++) {
      await clock.advance(minute + 100);
      for (const job of all(api))
        if (job.status?.conditions === undefined) await finish(api, job, clock.now(), round === 1 ? 'Failed' : 'Complete');
      await clock.settle();
    }
    expect(all(api).map(({ status: s }) => s?.conditions?.[0]?.type)).toEqual(['Complete']);
  });

  it('reports a missing active Job and an invalid schedule', async () => {
    const life = await start(make());
    const { api, clock } = life;
    await clock.advance(minute + 200);
    const [name] = named(all(api));
    api.remove(jobs, at(name ?? ''));
    await clock.settle();
    expect(life.messages('MissingJob')).toEqual([`Active job went missing: ${name}`]);
    expect(status(api)?.active ?? []).toEqual([]);
    await api.client().patch(cronJobs, at('tick'), 'merge', { spec: { timeZone: 'Mars/Olympus' } });
    await clock.settle();
    expect(life.messages('UnknownTimeZone')[0]).toBe('invalid timeZone: "Mars/Olympus": unknown time zone Mars/Olympus');
    await api.client().patch(cronJobs, at('tick'), 'merge', { spec: { timeZone: null, schedule: '61 * * * *' } });
    await clock.settle();
    expect(life.messages('UnparseableSchedule')[0]).toBe('unparseable schedule: "61 * * * *" : end of range (61) above maximum (59): 61');
  });
});

describe('parseSchedule', () => {
  const next = (text: string, after: string, zone = 'UTC', count = 1) => {
    const schedule = parseSchedule(text, new TimeZone(zone));
    const times: string[] = [];
    for (let time = schedule.next(Date.parse(after)); time !== undefined && times.length < count; time = schedule.next(time))
      times.push(new Date(time).toISOString().slice(0, 16));
    return times;
  };
  it.each([
    ['* * * * *', '2026-01-01T00:00:30Z', '2026-01-01T00:01'],
    ['0 0 29 2 *', '2026-01-01T00:00:00Z', '2028-02-29T00:00'],
    ['30 4 1,15 * 5', '2026-01-01T05:00:00Z', '2026-01-02T04:30'],
    ['0 0 */2 * 1', '2026-01-01T00:00:00Z', '2026-01-03T00:00'],
    ['0 0 * * MON-FRI', '2026-01-02T12:00:00Z', '2026-01-05T00:00'],
    ['5/20 10 ? JAN *', '2026-01-01T10:06:00Z', '2026-01-01T10:25'],
    ['@weekly', '2026-01-01T00:00:00Z', '2026-01-04T00:00'],
    ['@every 90m', '2026-01-01T00:00:00Z', '2026-01-01T01:30'],
    ['TZ=Asia/Tokyo 0 9 * * *', '2026-01-01T00:30:00Z', '2026-01-02T00:00'],
  ])('%s after %s', (text, after, expected) => {
    expect(next(text, after)).toEqual([expected]);
  });
  it('returns no time for a day that does not exist', () => {
    expect(next('0 0 31 2 *', '2026-01-01T00:00:00Z')).toEqual([]);
  });
  it('skips local times that a clock change skips and repeats those that it repeats', () => {
    // 2026-03-29 02:00 -> 03:00 and 2026-10-25 03:00 -> 02:00 in Berlin
    expect(next('30 2 * * *', '2026-03-28T00:00:00Z', 'Europe/Berlin', 2)).toEqual(['2026-03-28T01:30', '2026-03-30T00:30']);
    expect(next('30 2 * * *', '2026-10-24T12:00:00Z', 'Europe/Berlin', 3)).toEqual([
      '2026-10-25T00:30',
      '2026-10-25T01:30',
      '2026-10-26T01:30',
    ]);
    // 2026-03-29 has no midnight in Beirut
    expect(next('30 0 * * *', '2026-03-28T00:00:00Z', 'Asia/Beirut', 1)).toEqual(['2026-03-29T21:30']);
  });
  it.each(['* * * *', '* * * * 7', '5-1 * * * *', '*/0 * * * *', '@sometimes', '', 'x * * * *'])('rejects %j', (text) => {
    expect(() => parseSchedule(text, new TimeZone('UTC'))).toThrow();
  });
});

describe('TTL-after-finished controller', () => {
  it('deletes a finished Job with its dependents after its TTL', async () => {
    const life = await runControllers([ttl]);
    const { api, clock } = life;
    const job: Job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { namespace: 'd', name: 'work' },
      spec: { ttlSecondsAfterFinished: 100, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a' }] } } },
    };
    await api.client().create(jobs, job);
    await clock.advance(1_000_000);
    await finish(api, api.object(jobs, at('work')) as Job, clock.now());
    await clock.advance(99_000);
    expect(api.object(jobs, at('work'))?.metadata?.deletionTimestamp).toBeUndefined();
    await clock.advance(1_000);
    expect(api.object(jobs, at('work'))?.metadata).toMatchObject({ finalizers: ['foregroundDeletion'] });
    expect(api.object(jobs, at('work'))?.metadata?.deletionTimestamp).toBeDefined();
  });
});

controllerPluginContract(
  cronJob,
  [
    {
      title: 'runs two Jobs and keeps one',
      simulateOthers: async (api) => {
        const open = all(api).find((job) => job.status?.conditions === undefined);
        if (open === undefined) return false;
        await finish(api, open, Date.UTC(2026, 0, 1, 1));
        return true;
      },
      steps: [
        async (api) => {
          await api.client().create(cronJobs, make({ successfulJobsHistoryLimit: 1 }));
        },
      ],
      expectResult: (api) => {
        expect(named(all(api))).toEqual([`tick-${Date.UTC(2026, 0, 1, 0, 2) / minute}`]);
        expect(status(api)).toMatchObject({ lastScheduleTime: '2026-01-01T00:02:00Z', lastSuccessfulTime: '2026-01-01T01:00:00Z' });
        expect(status(api)?.active ?? []).toEqual([]);
      },
    },
  ],
  { defaults: true, config: { timeZone: 'UTC' } },
);
