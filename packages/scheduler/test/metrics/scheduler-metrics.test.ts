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
