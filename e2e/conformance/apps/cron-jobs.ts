import { describe, expect, it } from 'vitest';
import { container, has, named, type Space, type Thing, type Workbench } from './workbench.ts';

const cron = (more: object = {}, command: readonly string[] = ['sleep', '3600']) => ({
  spec: {
    schedule: '* * * * *',
    jobTemplate: {
      spec: {
        template: { spec: { restartPolicy: 'OnFailure', terminationGracePeriodSeconds: 1, containers: [container('a:1', { command })] } },
      },
    },
    ...more,
  },
});
const minuteMs = 60_000;
/** A CronJob whose last run is long ago: the missed run starts at once, so that tests need not wait for two minutes. */
const lapse = (space: Space) =>
  space.patch(
    'cronjobs',
    'c',
    { status: { lastScheduleTime: new Date(Date.now() - 2 * minuteMs).toISOString().replace(/\.\d+Z$/, 'Z') } },
    { subresource: 'status' },
  );
const active = (all: readonly Thing[]) => all.filter(({ status }) => Number(status?.['active'] ?? 0) > 0);

/** Behaviors of a minute and more: they wait concurrently. */
export function cronJobs(bench: Workbench): void {
  describe.concurrent('[sig-apps] CronJob', () => {
    it('should support CronJob API operations', async () => {
      const space = await bench.space();
      const never = cron({ schedule: '0 0 31 2 *' });
      await space.watching(
        'cronjobs',
        () => space.create('cronjobs', 'c', never, { labels: { e2e: space.name } }),
        (type) => type === 'ADDED',
      );
      expect((await space.list('cronjobs')).items).toHaveLength(1);
      expect((await space.everywhere('cronjobs', `e2e=${space.name}`)).items).toHaveLength(1);
      await space.watching(
        'cronjobs',
        () => space.patch('cronjobs', 'c', { metadata: { annotations: { patched: 'true' } } }),
        (type, thing) => type === 'MODIFIED' && thing.metadata.annotations?.['patched'] === 'true',
      );
      const updated = await space.update('cronjobs', 'c', ({ metadata }) => ({
        metadata: { ...metadata, annotations: { updated: 'true' } },
      }));
      expect(updated.metadata.annotations?.['updated']).toBe('true');
      const at = '2026-01-01T00:00:00Z';
      const patched = await space.patch(
        'cronjobs',
        'c',
        { metadata: { annotations: { patchedstatus: 'true' } }, status: { lastScheduleTime: at } },
        { subresource: 'status' },
      );
      expect([patched.status?.['lastScheduleTime'], patched.metadata.annotations?.['patchedstatus']]).toEqual([at, 'true']);
      const later = '2026-01-02T00:00:00Z';
      await space.update('cronjobs', 'c', ({ status }) => ({ status: { ...status, lastScheduleTime: later } }), 'status');
      expect((await space.get('cronjobs', 'c', 'status')).status).toMatchObject({ lastScheduleTime: later });
      await space.remove('cronjobs', 'c');
      await space.untilNone('cronjobs');
      for (const name of ['a', 'b']) await space.create('cronjobs', name, never, { labels: { e2e: space.name } });
      await space.removeAll('cronjobs', `e2e=${space.name}`);
      await space.untilNone('cronjobs');
    });

    it('should not schedule jobs when suspended [Slow]', async () => {
      const space = await bench.space();
      await space.create('cronjobs', 'c', cron({ suspend: true }));
      await lapse(space);
      // CronJobs that are not suspended have run meanwhile
      const other = await bench.space();
      await other.create('cronjobs', 'c', cron());
      await lapse(other);
      await other.until('jobs', 'a job', (all) => all.length > 0);
      expect((await space.list('jobs')).items).toEqual([]);
    });

    it('should schedule multiple jobs concurrently', async () => {
      const space = await bench.space();
      await space.create('cronjobs', 'c', cron({ concurrencyPolicy: 'Allow' }));
      await lapse(space);
      await space.until('jobs', 'a job', (all) => active(all).length === 1);
      await space.api.until('two jobs at once', space.path('jobs'), (all) => active(all as readonly Thing[]).length === 2, 5 * minuteMs);
    });

    it('should replace jobs when ReplaceConcurrent', async () => {
      const space = await bench.space();
      await space.create('cronjobs', 'c', cron({ concurrencyPolicy: 'Replace' }));
      await lapse(space);
      const [first] = await space.until('jobs', 'a job', (all) => active(all).length === 1);
      await space.api.until(
        'another replaces it',
        space.path('jobs'),
        (all) => all.length === 1 && !named(first?.metadata.name ?? '')(all[0] as Thing),
        5 * minuteMs,
      );
    });

    it('should not schedule new jobs when ForbidConcurrent [Slow]', async () => {
      const space = await bench.space();
      await space.create('cronjobs', 'c', cron({ concurrencyPolicy: 'Forbid' }));
      await lapse(space);
      const [first] = await space.until('jobs', 'a job', (all) => active(all).length === 1);
      // the next scheduled time passes without a job
      await space.api.until('a skipped time', space.path('events'), (all) => all.some(has({ reason: 'JobAlreadyActive' })), 5 * minuteMs);
      expect((await space.list('jobs')).items.map(({ metadata }) => metadata.name)).toEqual([first?.metadata.name]);
    });
  });
}
