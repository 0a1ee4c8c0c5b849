import { jobs, pods } from '@oarlock/api/resources';
import { formatTime } from '@oarlock/api/values/time';
import type { Job, JobSpec } from '@oarlock/api/types/batch-v1';
import type { Pod, PodCondition } from '@oarlock/api/types/core-v1';
import { IndexSet } from '@oarlock/controllers/batch/job/index-set';
import job from '@oarlock/controllers/batch/job/job-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import { setPodTerminated, isLive, setPodReady } from '@oarlock/testing/simulated-pods';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { at, runControllers, type RunningControllers } from '../../support/running-controllers.ts';

const make = (more: Partial<JobSpec> = {}): Job => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { namespace: 'd', name: 'work' },
  spec: {
    selector: { matchLabels: { 'job-name': 'work' } },
    template: { metadata: { labels: { 'job-name': 'work' } }, spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'a:1' }] } },
    ...more,
  },
});
const indexed = (more: Partial<JobSpec> = {}) => make({ completionMode: 'Indexed', completions: 3, parallelism: 3, ...more });
const status = (api: MemoryApi) => api.object(jobs, at('work'))?.status;
const alive = (api: MemoryApi) => api.objects(pods, 'd').filter(isLive);
const condition = (api: MemoryApi, type: string) => status(api)?.conditions?.find((each) => each.type === type && each.status === 'True');
const indexOf = (pod: Pod) => Number(pod.metadata?.annotations?.['batch.kubernetes.io/job-completion-index']);
const ofIndex = (api: MemoryApi, index: number) => alive(api).find((pod) => indexOf(pod) === index);
const patch = (api: MemoryApi, spec: unknown) => api.client().patch(jobs, at('work'), 'merge', { spec });
const end = async ({ api, clock }: RunningControllers, pod: Pod | undefined, code: number, conditions: readonly PodCondition[] = []) => {
  if (pod !== undefined) await setPodTerminated(api, { pod, exitCode: code, at: clock.now(), conditions });
  await clock.settle();
};
/** Removes terminating pods, as kubelets do. */
const reap = async ({ api, clock }: RunningControllers) => {
  for (const pod of api.objects(pods, 'd'))
    if (pod.metadata?.deletionTimestamp !== undefined && (pod.metadata.finalizers ?? []).length === 0)
      api.remove(pods, at(pod.metadata.name ?? ''));
  await clock.settle();
};
const start = async (spec: Job): Promise<RunningControllers> => {
  const life = await runControllers([job]);
  await life.api.client().create(jobs, spec);
  await life.clock.settle();
  return life;
};

describe('JobController', () => {
  it('runs pods up to its parallelism until enough have succeeded', async () => {
    const life = await start(make({ completions: 3, parallelism: 2 }));
    const { api } = life;
    expect(alive(api)).toHaveLength(2);
    expect(alive(api)[0]?.metadata?.finalizers).toEqual(['batch.kubernetes.io/job-tracking']);
    expect(status(api)).toMatchObject({ active: 2, ready: 0, startTime: formatTime(life.clock.now()) });
    await setPodReady(api, alive(api)[0] as Pod, life.clock.now());
    await life.clock.settle();
    expect(status(api)).toMatchObject({ active: 2, ready: 1 });
    for (let round = 0; round < 3; round++) await end(life, alive(api)[0], 0);
    expect(status(api)).toMatchObject({ succeeded: 3, active: 0, completionTime: formatTime(life.clock.now()) });
    expect(status(api)?.conditions?.map(({ type }) => type)).toEqual(['SuccessCriteriaMet', 'Complete']);
    expect(condition(api, 'Complete')).toMatchObject({
      reason: 'CompletionsReached',
      message: 'Reached expected number of succeeded pods',
    });
    expect(status(api)?.uncountedTerminatedPods).toEqual({});
    expect(api.objects(pods, 'd').flatMap(({ metadata }) => metadata?.finalizers ?? [])).toEqual([]);
    expect(life.messages('Completed')).toEqual(['Job completed']);
  });

  it('backs off after each failure and fails the Job at the limit', async () => {
    const life = await start(make({ backoffLimit: 2 }));
    const { api, clock } = life;
    await end(life, alive(api)[0], 1);
    expect(alive(api)).toHaveLength(0);
    await clock.advance(9_000);
    expect(alive(api)).toHaveLength(0);
    await clock.advance(1_000);
    expect(alive(api)).toHaveLength(1);
    await end(life, alive(api)[0], 1);
    await clock.advance(20_000);
    expect(alive(api)).toHaveLength(1);
    await end(life, alive(api)[0], 1);
    expect(status(api)).toMatchObject({ failed: 3, active: 0 });
    expect(status(api)?.conditions?.map(({ type }) => type)).toEqual(['FailureTarget', 'Failed']);
    expect(condition(api, 'Failed')).toMatchObject({
      reason: 'BackoffLimitExceeded',
      message: 'Job has reached the specified backoff limit',
    });
    expect(life.messages('BackoffLimitExceeded')).toEqual(['Job has reached the specified backoff limit']);
  });

  it('should create pods for an Indexed job with completion indexes and specified hostname', async () => {
    const life = await start(indexed());
    const { api } = life;
    expect(alive(api).map(indexOf).sort()).toEqual([0, 1, 2]);
    const pod = ofIndex(api, 1);
    expect(pod?.spec?.hostname).toBe('work-1');
    expect(pod?.metadata?.name).toMatch(/^work-1-/);
    expect(pod?.metadata?.labels?.['batch.kubernetes.io/job-completion-index']).toBe('1');
    expect(pod?.spec?.containers[0]?.env?.[0]).toMatchObject({
      name: 'JOB_COMPLETION_INDEX',
      valueFrom: { fieldRef: { fieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']" } },
    });
    for (const index of [2, 0]) await end(life, ofIndex(api, index), 0);
    expect(status(api)).toMatchObject({ succeeded: 2, completedIndexes: '0,2' });
    await end(life, ofIndex(api, 1), 0);
    expect(status(api)).toMatchObject({ succeeded: 3, completedIndexes: '0-2' });
    expect(condition(api, 'Complete')).toBeDefined();
  });

  it('should execute all indexes despite some failing when using backoffLimitPerIndex', async () => {
    const life = await start(indexed({ backoffLimitPerIndex: 1 }));
    const { api, clock } = life;
    await end(life, ofIndex(api, 0), 1);
    expect(ofIndex(api, 0)).toBeUndefined();
    await clock.advance(10_000);
    expect(ofIndex(api, 0)?.metadata?.annotations?.['batch.kubernetes.io/job-index-failure-count']).toBe('1');
    await end(life, ofIndex(api, 0), 1);
    await end(life, ofIndex(api, 1), 0);
    expect(status(api)).toMatchObject({ failedIndexes: '0', completedIndexes: '1', failed: 2 });
    expect(condition(api, 'Failed')).toBeUndefined();
    await end(life, ofIndex(api, 2), 0);
    expect(condition(api, 'Failed')).toMatchObject({ reason: 'FailedIndexes', message: 'Job has failed indexes' });
  });

  it('should terminate job execution when the number of failed indexes exceeds maxFailedIndexes', async () => {
    const life = await start(indexed({ backoffLimitPerIndex: 0, maxFailedIndexes: 0 }));
    const { api } = life;
    await end(life, ofIndex(api, 1), 1);
    await reap(life);
    expect(alive(api)).toEqual([]);
    expect(condition(api, 'Failed')).toMatchObject({
      reason: 'MaxFailedIndexesExceeded',
      message: 'Job has exceeded the specified maximal number of failed indexes',
    });
  });

  it('should mark indexes as failed when the FailIndex action is matched in podFailurePolicy', async () => {
    const rules = [{ action: 'FailIndex', onExitCodes: { operator: 'In', values: [42] } }];
    const life = await start(indexed({ backoffLimitPerIndex: 5, podFailurePolicy: { rules } }));
    await end(life, ofIndex(life.api, 0), 42);
    expect(status(life.api)).toMatchObject({ failedIndexes: '0' });
  });

  it('should allow to use the pod failure policy on exit code to fail the job early', async () => {
    const rules = [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [1] } }];
    const life = await start(make({ podFailurePolicy: { rules }, parallelism: 2, completions: 4 }));
    const pod = alive(life.api)[0];
    await end(life, pod, 1);
    await reap(life);
    const message = `Container c for pod d/${pod?.metadata?.name} failed with exit code 1 matching FailJob rule at index 0`;
    expect(condition(life.api, 'FailureTarget')).toMatchObject({ reason: 'PodFailurePolicy', message });
    // its pods must have failed, not only be terminating
    for (const other of life.api.objects(pods, 'd')) if (other.metadata?.deletionTimestamp !== undefined) await end(life, other, 137);
    await reap(life);
    expect(condition(life.api, 'Failed')).toMatchObject({ reason: 'PodFailurePolicy', message });
  });

  it('should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition', async () => {
    const rules = [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }];
    const life = await start(make({ backoffLimit: 0, podFailurePolicy: { rules } }));
    await end(life, alive(life.api)[0], 1, [{ type: 'DisruptionTarget', status: 'True' }]);
    await life.clock.advance(10_000);
    expect(status(life.api)?.failed ?? 0).toBe(0);
    expect(alive(life.api)).toHaveLength(1);
    await end(life, alive(life.api)[0], 0);
    expect(condition(life.api, 'Complete')).toBeDefined();
  });

  it('with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending', async () => {
    const life = await start(indexed({ successPolicy: { rules: [{ succeededIndexes: '0' }] } }));
    await end(life, ofIndex(life.api, 0), 0);
    await reap(life);
    expect(alive(life.api)).toEqual([]);
    expect(condition(life.api, 'SuccessCriteriaMet')).toMatchObject({ reason: 'SuccessPolicy', message: 'Matched rules at index 0' });
    expect(condition(life.api, 'Complete')).toMatchObject({ reason: 'SuccessPolicy' });
    expect(status(life.api)).toMatchObject({ completedIndexes: '0', succeeded: 1 });
    // the pods that the controller stops are no failures
    expect(status(life.api)?.failed ?? 0).toBe(0);
  });

  it('counts every pod that still runs as failed when the Job fails, also if it ends with exit code 0', async () => {
    const rules = [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [1] } }];
    const life = await start(make({ podFailurePolicy: { rules }, parallelism: 2, completions: 4 }));
    const [first, second] = alive(life.api);
    await end(life, first, 1);
    await end(life, second, 0);
    await reap(life);
    expect(condition(life.api, 'Failed')).toBeDefined();
    expect(status(life.api)).toMatchObject({ failed: 2 });
    expect(status(life.api)?.succeeded ?? 0).toBe(0);
  });

  it('fails if all indexes are settled and one has failed, before it applies the success policy', async () => {
    const rules = [{ succeededCount: 1 }];
    const life = await start(indexed({ completions: 2, backoffLimitPerIndex: 0, successPolicy: { rules } }));
    const { api, clock } = life;
    const [zero, one] = [ofIndex(api, 0), ofIndex(api, 1)] as [Pod, Pod];
    await setPodTerminated(api, { pod: one, exitCode: 1, at: clock.now() });
    await setPodTerminated(api, { pod: zero, exitCode: 0, at: clock.now() });
    await clock.settle();
    expect(condition(api, 'Failed')).toMatchObject({ reason: 'FailedIndexes' });
  });

  it('does not start a later index while the lowest pending index is in its backoff', async () => {
    const life = await start(indexed({ parallelism: 1, backoffLimitPerIndex: 2 }));
    const { api, clock } = life;
    await end(life, ofIndex(api, 0), 1);
    expect(alive(api)).toEqual([]);
    await clock.advance(10_000);
    expect(alive(api).map(indexOf)).toEqual([0]);
  });

  it('with successPolicy succeededCount rule should succeeded even when some indexes remain pending', async () => {
    const life = await start(indexed({ successPolicy: { rules: [{ succeededIndexes: '0-1', succeededCount: 1 }] } }));
    await end(life, ofIndex(life.api, 2), 0);
    expect(condition(life.api, 'SuccessCriteriaMet')).toBeUndefined();
    await end(life, ofIndex(life.api, 1), 0);
    expect(condition(life.api, 'SuccessCriteriaMet')).toBeDefined();
  });

  it('when suspended deletes pods without counting failures, and restarts the deadline on resume', async () => {
    const life = await start(make({ parallelism: 2, completions: 2, suspend: true, activeDeadlineSeconds: 60 }));
    const { api, clock } = life;
    expect(alive(api)).toEqual([]);
    expect(condition(api, 'Suspended')).toMatchObject({ reason: 'JobSuspended', message: 'Job suspended' });
    await clock.advance(100_000);
    await patch(api, { suspend: false });
    await clock.settle();
    expect(alive(api)).toHaveLength(2);
    expect(status(api)?.startTime).toBe(formatTime(clock.now()));
    await patch(api, { suspend: true });
    await clock.settle();
    await reap(life);
    expect(alive(api)).toEqual([]);
    expect(status(api)).toMatchObject({ active: 0 });
    expect(status(api)?.startTime).toBeUndefined();
    expect(status(api)?.failed ?? 0).toBe(0);
    expect(life.reasons().filter((reason) => reason === 'Suspended' || reason === 'Resumed')).toEqual([
      'Suspended',
      'Resumed',
      'Suspended',
    ]);
  });

  it('keeps the index in the names of pods of a Job with a long name', async () => {
    const { metadata, ...rest } = indexed({ completions: 1 });
    const life = await start({ ...rest, metadata: { ...metadata, name: 'x'.repeat(61) } });
    expect(alive(life.api).map((pod) => pod.metadata?.generateName)).toEqual([`${'x'.repeat(55)}-0-`]);
  });

  it('changes a condition in its place', async () => {
    const life = await start(make({ suspend: true }));
    const own = { type: 'example.com/Checked', status: 'True', reason: 'x', message: '' };
    const present = status(life.api);
    await life.api
      .client()
      .patch(jobs, at('work'), 'merge', { status: { conditions: [...(present?.conditions ?? []), own] } }, { subresource: 'status' });
    await patch(life.api, { suspend: false });
    await life.clock.settle();
    expect(status(life.api)?.conditions?.map(({ type, status: value }) => [type, value])).toEqual([
      ['Suspended', 'False'],
      ['example.com/Checked', 'True'],
    ]);
  });

  it('counts the pods that it deletes as terminating in the status with the condition FailureTarget', async () => {
    const life = await start(make({ parallelism: 2, activeDeadlineSeconds: 5 }));
    await life.clock.advance(5_000);
    const interim = life.api.requests
      .filter(({ verb, resource, subresource }) => verb === 'update' && resource.resource === 'jobs' && subresource === 'status')
      .map(({ body }) => (body as Job).status)
      .find((each) => each?.conditions?.some(({ type }) => type === 'FailureTarget'));
    expect(interim).toMatchObject({ active: 0, ready: 0, terminating: 2 });
  });

  it('fails the Job after activeDeadlineSeconds', async () => {
    const life = await start(make({ activeDeadlineSeconds: 60 }));
    await life.clock.advance(60_000);
    await reap(life);
    expect(condition(life.api, 'Failed')).toMatchObject({
      reason: 'DeadlineExceeded',
      message: 'Job was active longer than specified deadline',
    });
    expect(alive(life.api)).toEqual([]);
  });

  it('with podReplacementPolicy Failed replaces a terminating pod only when it has failed', async () => {
    const life = await start(make({ podReplacementPolicy: 'Failed' }));
    const { api, clock } = life;
    const [pod] = alive(api);
    await api.client().delete(pods, at(pod?.metadata?.name ?? ''));
    await clock.advance(20_000);
    expect(alive(api)).toEqual([]);
    expect(status(api)).toMatchObject({ terminating: 1, active: 0 });
    await end(life, pod, 143);
    await clock.advance(20_000);
    expect(alive(api)).toHaveLength(1);
  });

  it('scales with the number of completions', async () => {
    const life = await start(indexed({ completions: 2, parallelism: 2 }));
    const { api, clock } = life;
    await patch(api, { completions: 4, parallelism: 4 });
    await clock.settle();
    expect(alive(api).map(indexOf).sort()).toEqual([0, 1, 2, 3]);
    await patch(api, { completions: 1, parallelism: 1 });
    await clock.settle();
    await reap(life);
    expect(alive(api).map(indexOf)).toEqual([0]);
    await end(life, ofIndex(api, 0), 0);
    expect(condition(api, 'Complete')).toBeDefined();
    expect(status(api)).toMatchObject({ completedIndexes: '0', succeeded: 1 });
    expect(status(api)?.failed ?? 0).toBe(0);
  });

  it('without completions completes the Job when one pod has succeeded and the others have terminated', async () => {
    const life = await runControllers([job], { defaults: false });
    await life.api.client().create(jobs, make({ parallelism: 2 }));
    await life.clock.settle();
    expect(alive(life.api)).toHaveLength(2);
    await end(life, alive(life.api)[0], 0);
    expect(alive(life.api)).toHaveLength(1);
    expect(condition(life.api, 'Complete')).toBeUndefined();
    await end(life, alive(life.api)[0], 1);
    expect(condition(life.api, 'Complete')).toBeDefined();
  });

  it('should adopt matching orphans and release non-matching pods', async () => {
    const life = await start(make());
    const { api, clock } = life;
    const name = alive(api)[0]?.metadata?.name ?? '';
    await api.client().patch(pods, at(name), 'merge', { metadata: { ownerReferences: null } });
    await clock.settle();
    expect(api.object(pods, at(name))?.metadata?.ownerReferences?.[0]).toMatchObject({ kind: 'Job', name: 'work', controller: true });
    await api.client().patch(pods, at(name), 'merge', { metadata: { labels: { 'job-name': 'other' } } });
    await clock.settle();
    expect(api.object(pods, at(name))?.metadata?.ownerReferences ?? []).toEqual([]);
    expect(api.object(pods, at(name))?.metadata?.finalizers ?? []).toEqual([]);
  });

  it('ignores Jobs with managedBy, and releases the pods of a deleted Job', async () => {
    const life = await start(make({ managedBy: 'example.com/other' }));
    expect(life.api.objects(pods, 'd')).toEqual([]);
    const second = await start(make());
    second.api.remove(jobs, at('work'));
    await second.clock.settle();
    expect(second.api.objects(pods, 'd').flatMap(({ metadata }) => metadata?.finalizers ?? [])).toEqual([]);
  });

  it('counts every pod once while its cache is stale', async () => {
    const life = await start(make({ completions: 4, parallelism: 2 }));
    const { api, clock } = life;
    for (let round = 0; round < 2; round++) {
      for (const pod of alive(api)) await setPodTerminated(api, { pod, exitCode: 0, at: clock.now() });
      await clock.settle();
      api.dropWatches();
      await patch(api, { activeDeadlineSeconds: 1_000_000 + round });
      await clock.advance(60_000);
    }
    expect(status(api)).toMatchObject({ succeeded: 4 });
    expect(condition(api, 'Complete')).toBeDefined();
    expect(api.objects(pods, 'd')).toHaveLength(4);
  });
});

describe('IndexSet', () => {
  it('formats indexes as upstream does', () => {
    expect(IndexSet.of([0, 1, 3, 4, 5, 9]).toString()).toBe('0,1,3-5,9');
    expect(IndexSet.parse('0-3,8,10-20', 12).toString()).toBe('0-3,8,10,11');
  });
  it('contains the indexes that were added', () => {
    const indexes = fc.uniqueArray(fc.nat(60), { maxLength: 40 });
    fc.assert(
      fc.property(indexes, indexes, (a, b) => {
        const set = IndexSet.of(a).plus(b);
        expect([...set]).toEqual([...new Set([...a, ...b])].sort((x, y) => x - y));
        expect([...IndexSet.parse(set.toString(), 100)]).toEqual([...set]);
        expect(set.size).toBe(new Set([...a, ...b]).size);
        expect(IndexSet.of(a).common(IndexSet.of(b))).toBe(a.filter((x) => b.includes(x)).length);
        for (let x = 0; x <= 60; x++) expect(set.has(x)).toBe(a.includes(x) || b.includes(x));
      }),
    );
  });
});

/** Terminates pods: the first two of a run fail, the others succeed. */
const runPods = (failures: number) => async (api: MemoryApi) => {
  let changed = false;
  let failed = api.objects(pods, 'd').filter((pod) => pod.status?.phase === 'Failed').length;
  for (const pod of api.objects(pods, 'd')) {
    if (pod.metadata?.deletionTimestamp !== undefined) {
      if ((pod.metadata.finalizers ?? []).length > 0) continue;
      api.remove(pods, at(pod.metadata.name ?? ''));
    } else if (isLive(pod)) {
      const code = failed < failures ? 1 : 0;
      failed += code;
      await setPodTerminated(api, { pod, exitCode: code, at: Date.UTC(2026, 0, 1) });
    } else continue;
    changed = true;
  }
  return changed;
};
controllerPluginContract(
  job,
  [
    {
      title: 'reaches three completions after a failure',
      simulateOthers: runPods(1),
      steps: [
        async (api) => {
          await api.client().create(jobs, make({ completions: 3, parallelism: 2 }));
        },
      ],
      expectResult: (api) => {
        expect(status(api)).toMatchObject({ succeeded: 3, failed: 1, uncountedTerminatedPods: {} });
        expect(condition(api, 'Complete')).toBeDefined();
        expect(api.objects(pods, 'd').filter(({ status: { phase } = {} }) => phase === 'Succeeded')).toHaveLength(3);
        expect(api.objects(pods, 'd').flatMap(({ metadata }) => metadata?.finalizers ?? [])).toEqual([]);
      },
    },
    {
      title: 'suspends and resumes a running Job',
      // terminating pods are removed; running pods finish only in the second half
      simulateOthers: async (api) => {
        if (api.object(jobs, at('work'))?.metadata?.labels?.['half'] === 'second') return runPods(0)(api);
        const gone = api
          .objects(pods, 'd')
          .find((pod) => pod.metadata?.deletionTimestamp !== undefined && !pod.metadata.finalizers?.length);
        if (gone !== undefined) api.remove(pods, at(gone.metadata?.name ?? ''));
        return gone !== undefined;
      },
      steps: [
        async (api) => {
          await api.client().create(jobs, make({ completions: 2, parallelism: 2 }));
        },
        async (api) => void (await patch(api, { suspend: true })),
        async (api) => {
          await api.client().patch(jobs, at('work'), 'merge', { metadata: { labels: { half: 'second' } }, spec: { suspend: false } });
        },
      ],
      expectResult: (api) => {
        expect(status(api)).toMatchObject({ succeeded: 2, uncountedTerminatedPods: {} });
        expect(status(api)?.failed ?? 0).toBe(0);
        expect(status(api)?.startTime).toBeDefined();
        expect(condition(api, 'Complete')).toBeDefined();
        expect(api.objects(pods, 'd')).toHaveLength(2);
      },
    },
    {
      title: 'fails an Indexed Job whose first index fails permanently',
      simulateOthers: runPods(1),
      steps: [
        async (api) => {
          await api.client().create(jobs, indexed({ completions: 2, backoffLimitPerIndex: 0 }));
        },
      ],
      expectResult: (api) => {
        expect(status(api)).toMatchObject({ succeeded: 1, failed: 1 });
        expect(status(api)?.failedIndexes).toMatch(/^[01]$/);
        expect(condition(api, 'Failed')).toMatchObject({ reason: 'FailedIndexes' });
      },
    },
  ],
  { defaults: true },
);
