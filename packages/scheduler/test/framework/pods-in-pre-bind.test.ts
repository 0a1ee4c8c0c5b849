import { Scheduling, success, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
/** Ends the preBind phase of the pod that has the label `slow`. */
let finish: (() => void) | undefined;
const slowVolumes = Scheduling.plugin({
  id: 'slow-volumes',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'SlowVolumes',
    preBind: (_state, { pod: { metadata } }, _node, { signal }) =>
      metadata?.labels?.['slow'] === undefined
        ? Promise.resolve(success)
        : new Promise((resolve, reject) => {
            finish = () => resolve(success);
            signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
          }),
  }),
});
beforeEach(async () => {
  w = testScheduler({}, [slowVolumes]);
  w.seedNodes(node('n', {}, { cpu: '1' }));
  await w.start();
});
afterEach(() => w.stop());
const asking = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '1' } } }] };

describe('a pod in the preBind phase', () => {
  it('is bound when the phase ends', async () => {
    await w.submit(pod('a', asking, { slow: 'yes' }));
    expect(w.placeOf('a')).toBeUndefined();
    finish?.();
    await w.clock.settle();
    expect(w.placeOf('a')).toBe('n');
  });

  it('is retried after its backoff instead of deleted when it is preempted', async () => {
    await w.submit(pod('a', asking, { slow: 'yes' }));
    await w.submit(pod('high', { ...asking, priority: 1000 }));
    expect(w.told).toContainEqual(expect.objectContaining({ about: 'a', reason: 'Preempted' }));
    expect(w.podOf('a')?.metadata?.deletionTimestamp).toBeUndefined();
    expect(w.podOf('a')?.status?.conditions?.map(({ type }) => type)).toEqual(['PodScheduled']);
    expect(w.whyNot('a')).toContain('preempted by DefaultPreemption');
    expect(w.scheduler.pendingPods.backoff).toBe(1);
    expect([w.placeOf('high'), w.placeOf('a')]).toEqual(['n', undefined]);
  });

  it('is deleted when it is preempted after the phase', async () => {
    await w.submit(pod('a', asking, { slow: 'yes' }));
    finish?.();
    await w.clock.settle();
    await w.submit(pod('high', { ...asking, priority: 1000 }));
    expect(w.podOf('a')?.status?.conditions?.map(({ type }) => type)).toContain('DisruptionTarget');
  });
});
