import { pods } from '@oarlock/api/resources';
import { Scheduling, success, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
let refuses: boolean;
/** A plugin that misses the event which helps its pods. */
const deaf = Scheduling.plugin({
  id: 'deaf',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'Deaf',
    eventsToRegister: [{ kind: 'AssignedPod', actions: ['deleted'] }],
    filter: () => (refuses ? unschedulable('not now') : success),
  }),
});
beforeEach(async () => {
  refuses = true;
  w = testScheduler({}, [deaf]);
  w.seedNodes(node('n'));
  await w.start();
});
afterEach(() => w.stop());
const afterFlush = async () => (await w.metrics.getSingleMetric('scheduler_pod_scheduled_after_flush_total')?.get())?.values[0]?.value;

describe('scheduler_pod_scheduled_after_flush_total', () => {
  it('counts a pod that the timeout of unschedulablePods requeued', async () => {
    await w.submit(pod('a'));
    refuses = false;
    await w.clock.advance(5 * 60_000);
    expect([w.placeOf('a'), await afterFlush()]).toEqual(['n', 1]);
  });

  it('does not count a pod that an event requeued, nor a pod that was rejected again after the timeout', async () => {
    await w.submit(pod('a'));
    await w.clock.advance(5 * 60_000);
    refuses = false;
    await w.submit(pod('b'));
    await w.api.client().delete(pods, { namespace: 'd', name: 'b' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(10_000);
    expect([w.placeOf('a'), await afterFlush()]).toEqual(['n', 0]);
  });
});

describe('the metrics of scheduled pods', () => {
  const seriesOf = async (name: string) => (await w.metrics.getSingleMetric(name)?.get())?.values ?? [];

  it('have the duration of each extension point that ran, by profile and status', async () => {
    refuses = false;
    w.seedNodes(node('m'));
    await w.submit(pod('a'));
    const points = (await seriesOf('scheduler_framework_extension_point_duration_seconds'))
      .filter(({ labels }) => 'le' in labels && labels['le'] === '+Inf')
      .map(({ labels, value }) => `${labels['extension_point']} ${labels['profile']} ${labels['status']} ${value}`);
    expect(points).toEqual(
      ['PreFilter', 'Filter', 'PreScore', 'Score', 'Reserve', 'Bind'].map((point) => `${point} default-scheduler Success 1`),
    );
  });

  it('have the attempts and the time since the first one', async () => {
    await w.submit(pod('a'));
    await w.clock.advance(2000);
    refuses = false;
    await w.clock.advance(5 * 60_000);
    expect(w.placeOf('a')).toBe('n');
    const sums = async (name: string) =>
      (await seriesOf(name)).flatMap(({ labels, value, ...more }) =>
        'metricName' in more && more.metricName === `${name}_sum` ? [[labels, value]] : [],
      );
    expect(await sums('scheduler_pod_scheduling_attempts')).toEqual([[{}, 2]]);
    const [[labels, seconds] = []] = await sums('scheduler_pod_scheduling_sli_duration_seconds');
    expect(labels).toEqual({ attempts: '2' });
    expect(seconds).toBeGreaterThanOrEqual(300);
  });

  it('count the pods that enter the queues', async () => {
    await w.submit(pod('a'));
    expect((await seriesOf('scheduler_queue_incoming_pods_total')).map(({ labels, value }) => ({ ...labels, value }))).toEqual([
      { queue: 'active', event: 'UnschedulablePodAdd', value: 1 },
      { queue: 'unschedulable', event: 'ScheduleAttemptFailure', value: 1 },
    ]);
  });
});
