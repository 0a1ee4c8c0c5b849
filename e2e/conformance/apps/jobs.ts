import { describe, expect, it } from 'vitest';
import { condition, container, has, isTrue, named, type Fields, type Thing, type Workbench } from './workbench.ts';

const index = '$(JOB_COMPLETION_INDEX)';
interface JobOptions extends Fields {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly restartPolicy?: string;
}
/** A job whose pods run this script: the simulated runtime supports `sleep`, `exit` and `true`. */
const job = (command: readonly string[], { annotations = {}, restartPolicy = 'Never', ...spec }: JobOptions = {}) => ({
  spec: {
    template: {
      metadata: { annotations },
      spec: { restartPolicy, terminationGracePeriodSeconds: 1, containers: [container('a:1', { command })] },
    },
    ...spec,
  },
});
const listOf = (fields: Fields | undefined, key: string) => (fields?.[key] ?? []) as readonly Fields[];
const forever = ['sleep', '3600'];
const indexed = (completions: number, more: object = {}): JobOptions => ({
  completions,
  parallelism: completions,
  completionMode: 'Indexed',
  ...more,
});
const reasonOf = (thing: Thing, type: string) => condition(thing, type)?.['reason'];
const exits = (action: string, operator: string, values: readonly number[]) => ({
  podFailurePolicy: { rules: [{ action, onExitCodes: { containerName: 'c', operator, values } }] },
});

export function jobs(bench: Workbench): void {
  describe.concurrent('[sig-apps] Job', () => {
    it('should run a job to completion when tasks sometimes fail and are locally restarted', async () => {
      const space = await bench.space();
      // the first attempt of each pod fails
      const annotations = {
        'simulated.oarlock.dev/exit-after': '0s',
        'simulated.oarlock.dev/exit-code': '1',
        'simulated.oarlock.dev/exits': '1',
      };
      await space.create(
        'jobs',
        'j',
        job(['true'], { annotations, restartPolicy: 'OnFailure', completions: 4, parallelism: 2, backoffLimit: 10 }),
      );
      const done = await space.untilTrue('jobs', 'j', 'Complete');
      expect(done.status).toMatchObject({ succeeded: 4 });
      const restarts = (await space.list('pods')).items.map(({ status }) => listOf(status, 'containerStatuses')[0]?.['restartCount']);
      expect(restarts).toEqual([1, 1, 1, 1]);
    });

    it('should create pods for an Indexed job with completion indexes and specified hostname', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['true'], indexed(4)));
      expect((await space.untilTrue('jobs', 'j', 'Complete')).status).toMatchObject({ succeeded: 4, completedIndexes: '0-3' });
      const pods = (await space.list('pods')).items;
      const annotation = 'batch.kubernetes.io/job-completion-index';
      expect(pods.map(({ metadata }) => metadata.annotations?.[annotation]).sort()).toEqual(['0', '1', '2', '3']);
      expect(pods.map(({ spec }) => spec?.['hostname']).sort()).toEqual(['j-0', 'j-1', 'j-2', 'j-3']);
      for (const { spec } of pods) {
        const [one] = listOf(spec, 'containers');
        expect(one?.['env']).toContainEqual({
          name: 'JOB_COMPLETION_INDEX',
          valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: `metadata.labels['${annotation}']` } },
        });
      }
    });

    it('should allow to use the pod failure policy on exit code to fail the job early', async () => {
      const space = await bench.space();
      await space.create(
        'jobs',
        'j',
        job(['exit', '1'], { backoffLimit: 4, parallelism: 2, completions: 4, ...exits('FailJob', 'In', [1]) }),
      );
      expect(reasonOf(await space.untilTrue('jobs', 'j', 'Failed'), 'Failed')).toBe('PodFailurePolicy');
    });

    it('should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition', async () => {
      const space = await bench.space();
      const podFailurePolicy = { rules: [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }] };
      await space.create('jobs', 'j', job(forever, indexed(2, { backoffLimit: 0, podFailurePolicy })));
      const running = (pods: readonly Thing[]) =>
        pods.filter(({ status, metadata }) => status?.['phase'] === 'Running' && metadata.deletionTimestamp === undefined);
      const before = await space.until('pods', 'two that run', (pods) => running(pods).length === 2);
      for (const { metadata } of before) expect((await space.evict(metadata.name)).status).toBe(201);
      const uids = new Set(before.map(({ metadata }) => metadata.uid));
      await space.until('pods', 'two others', (pods) => running(pods).filter(({ metadata }) => !uids.has(metadata.uid)).length === 2);
      const kept = await space.get('jobs', 'j');
      expect([isTrue(kept, 'Failed'), kept.status?.['failed'] ?? 0]).toEqual([false, 0]);
    });

    it('should execute all indexes despite some failing when using backoffLimitPerIndex', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['exit', index], indexed(3, { backoffLimitPerIndex: 1 })));
      const done = await space.untilTrue('jobs', 'j', 'Failed');
      // one retry for each failing index
      expect(done.status).toMatchObject({ failed: 4, succeeded: 1, failedIndexes: '1,2', completedIndexes: '0' });
      expect(reasonOf(done, 'Failed')).toBe('FailedIndexes');
    });

    it('should mark indexes as failed when the FailIndex action is matched in podFailurePolicy', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['exit', index], indexed(2, { backoffLimitPerIndex: 1, ...exits('FailIndex', 'In', [1]) })));
      const done = await space.untilTrue('jobs', 'j', 'Failed');
      expect(done.status).toMatchObject({ failed: 1, succeeded: 1, failedIndexes: '1', completedIndexes: '0' });
    });

    it('should terminate job execution when the number of failed indexes exceeds maxFailedIndexes', async () => {
      const space = await bench.space();
      await space.create(
        'jobs',
        'j',
        job(['exit', '1'], { ...indexed(10, { backoffLimitPerIndex: 0, maxFailedIndexes: 1 }), parallelism: 2 }),
      );
      const done = await space.untilTrue('jobs', 'j', 'Failed');
      expect(reasonOf(done, 'Failed')).toBe('MaxFailedIndexesExceeded');
      expect(Number(done.status?.['failed'])).toBeLessThan(10);
    });

    it('with successPolicy should succeeded when all indexes succeeded', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['true'], indexed(2, { successPolicy: { rules: [{ succeededIndexes: '0-1' }] } })));
      const done = await space.untilTrue('jobs', 'j', 'Complete');
      expect([reasonOf(done, 'SuccessCriteriaMet'), reasonOf(done, 'Complete')]).toEqual(['SuccessPolicy', 'SuccessPolicy']);
      expect(done.status).toMatchObject({ completedIndexes: '0,1' });
    });

    it('with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['sleep', `${index}000`], indexed(2, { successPolicy: { rules: [{ succeededIndexes: '0' }] } })));
      const done = await space.untilTrue('jobs', 'j', 'Complete');
      expect(reasonOf(done, 'SuccessCriteriaMet')).toBe('SuccessPolicy');
      expect(done.status).toMatchObject({ completedIndexes: '0', succeeded: 1 });
    });

    it('with successPolicy succeededCount rule should succeeded even when some indexes remain pending', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['sleep', `${index}000`], indexed(3, { successPolicy: { rules: [{ succeededCount: 1 }] } })));
      const done = await space.untilTrue('jobs', 'j', 'Complete');
      expect(reasonOf(done, 'SuccessCriteriaMet')).toBe('SuccessPolicy');
      expect(done.status).toMatchObject({ succeeded: 1 });
    });

    it('should delete a job', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(forever, { parallelism: 2, completions: 4 }));
      await space.untilHas('jobs', 'j', { status: { active: 2 } });
      await space.remove('jobs', 'j', { propagationPolicy: 'Foreground' });
      await space.untilNone('jobs');
      await space.untilNone('pods');
    });

    it('should adopt matching orphans and release non-matching pods', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(forever, { parallelism: 2, completions: 2 }));
      const pods = await space.until('pods', 'two pods', (all) => all.length === 2);
      const name = pods[0]?.metadata.name ?? '';
      const ownersOf = (all: readonly Thing[]) => all.find(named(name))?.metadata.ownerReferences ?? [];
      await space.patch('pods', name, { metadata: { ownerReferences: null } });
      await space.until('pods', 'the orphan adopted', (all) => ownersOf(all)[0]?.name === 'j');
      await space.patch('pods', name, {
        metadata: { labels: { 'batch.kubernetes.io/controller-uid': null, 'controller-uid': null, 'job-name': null } },
      });
      await space.until('pods', 'the pod released', (all) => ownersOf(all).length === 0);
    });

    it('should apply changes to a job status', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(forever, { parallelism: 2, completions: 4 }));
      const { status } = await space.untilHas('jobs', 'j', { status: { active: 2, ready: 2 } });
      const patched = await space.patch(
        'jobs',
        'j',
        {
          metadata: { annotations: { patchedstatus: 'true' } },
          status: { conditions: [{ type: 'CustomConditionType', status: 'True', message: 'patched' }] },
        },
        { subresource: 'status' },
      );
      expect(patched.metadata.annotations?.['patchedstatus']).toBe('true');
      expect(isTrue(patched, 'CustomConditionType')).toBe(true);
      const replaced = await space.update(
        'jobs',
        'j',
        (each) => ({ status: { ...each.status, startTime: status?.['startTime'], uncountedTerminatedPods: {} } }),
        'status',
      );
      expect(replaced.status?.['startTime']).toBe(status?.['startTime']);
      expect(has({ active: 2 })((await space.get('jobs', 'j', 'status')).status)).toBe(true);
    });

    it('should manage the lifecycle of a job', async () => {
      const space = await bench.space();
      await space.create('jobs', 'j', job(['true'], { suspend: true }), { labels: { e2e: space.name } });
      await space.untilTrue('jobs', 'j', 'Suspended');
      await space.watching(
        'jobs',
        () => space.patch('jobs', 'j', { metadata: { labels: { [space.name]: 'patched' } } }),
        (type, thing) => type === 'MODIFIED' && thing.metadata.labels?.[space.name] === 'patched',
      );
      await space.watching(
        'jobs',
        () =>
          space.update('jobs', 'j', ({ metadata, spec }) => ({
            spec: { ...spec, suspend: false },
            metadata: { ...metadata, annotations: { updated: 'true' } },
          })),
        (type, thing) => type === 'MODIFIED' && thing.metadata.annotations?.['updated'] === 'true',
      );
      await space.untilTrue('jobs', 'j', 'Complete');
      expect((await space.everywhere('jobs', `${space.name}=patched`)).items).toHaveLength(1);
      await space.watching(
        'jobs',
        () => space.removeAll('jobs', `${space.name}=patched`),
        (type) => type === 'DELETED' || type === 'MODIFIED',
      );
      await space.untilNone('jobs');
    });
  });
}
