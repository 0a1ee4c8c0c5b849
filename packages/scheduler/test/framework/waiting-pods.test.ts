import { nodes, pods } from '@oarlock/api/resources';
import type { Handle, SchedulingPlugin } from '@oarlock/spi/scheduling';
import { Scheduling, skip, success, unschedulable } from '@oarlock/spi/scheduling';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
let handle: Handle | undefined;
let refuses: boolean;
const hold = Scheduling.plugin({
  id: 'hold',
  config: z.strictObject({}),
  create: (): SchedulingPlugin => ({
    name: 'Hold',
    eventsToRegister: [
      { kind: 'Node', actions: ['added'] },
      { kind: 'AssignedPod', actions: ['deleted'] },
    ],
    setHandle(scheduler) {
      handle = scheduler;
    },
    permit: (_state, { pod: { metadata } }) => (metadata?.labels?.['hold'] ? { code: 'wait', timeoutMs: 60_000 } : success),
    preBindPreFlight: () => (refuses ? success : skip),
    preBind: () => Promise.resolve(refuses ? unschedulable('not now') : success),
  }),
});
beforeEach(async () => {
  refuses = false;
  w = testScheduler({}, [hold]);
  w.seedNodes(node('n', {}, { cpu: '1' }));
  await w.start();
});
afterEach(() => w.stop());
const asking = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '1' } } }] };

describe('permit', () => {
  it('keeps a pod and its resources reserved until it is allowed', async () => {
    await w.submit(pod('a', asking, { hold: 'yes' }));
    expect(w.placeOf('a')).toBeUndefined();
    await w.submit(pod('b', asking));
    expect(w.whyNot('b')).toContain('1 Insufficient cpu');
    handle?.waitingPod('d/a')?.allow('Hold');
    await w.clock.settle();
    expect(w.placeOf('a')).toBe('n');
  });

  it('retries a pod that is preempted after its backoff', async () => {
    await w.submit(pod('a', asking, { hold: 'yes' }));
    await w.submit(pod('high', { ...asking, priority: 1000 }, { hold: 'yes' }));
    await w.clock.settle();
    expect(w.told).toContainEqual(expect.objectContaining({ about: 'a', reason: 'Preempted' }));
    expect(w.podOf('a')?.metadata?.deletionTimestamp).toBeUndefined();
    expect(w.podOf('a')?.status?.conditions?.[0]?.message).toContain('0/1 nodes are available: 1 preempted.');
    expect(w.scheduler.pendingPods.backoff).toBe(1);
  });

  it("rejects a pod after the plugin's timeout", async () => {
    await w.submit(pod('a', asking, { hold: 'yes' }));
    await w.clock.advance(60_000);
    expect(w.podOf('a')?.status?.conditions?.[0]).toMatchObject({
      reason: 'Unschedulable',
      message: '0/1 nodes are available: 1 rejected due to timeout after waiting 60s at plugin Hold.',
    });
    // the resources that the pod leaves help other pods, not the pod itself
    expect(w.scheduler.pendingPods).toEqual({ active: 0, backoff: 0, unschedulable: 1, gated: 0 });
    await w.submit(pod('b', asking));
    expect(w.placeOf('b')).toBe('n');
  });

  it('does not retry a pod that is rejected after permit because of the resources that the pod leaves', async () => {
    refuses = true;
    await w.submit(pod('a', asking));
    expect(w.whyNot('a')).toBe('not now');
    expect(w.scheduler.pendingPods).toEqual({ active: 0, backoff: 0, unschedulable: 1, gated: 0 });
    refuses = false;
    await w.api.client().create(nodes, node('m'));
    await w.clock.advance(1_100);
    expect(w.placeOf('a')).toBeDefined();
  });

  it('assumes the pod on its node, and forgets it after a rejection', async () => {
    const nominated = () => w.podOf('a')?.status?.nominatedNodeName;
    await w.submit(pod('quick'));
    expect(w.api.requests.filter(({ verb }) => verb === 'patch')).toEqual([]);
    await w.submit(pod('a', asking, { hold: 'yes' }));
    expect([w.placeOf('a'), nominated()]).toEqual([undefined, 'n']);
    handle?.waitingPod('d/a')?.reject('Hold', 'no');
    await w.clock.settle();
    expect(nominated()).toBeUndefined();
  });

  it('forgets a pod that is deleted while it waits', async () => {
    await w.submit(pod('a', asking, { hold: 'yes' }), pod('b', asking));
    await w.api.client().delete(pods, { namespace: 'd', name: 'a' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(1100);
    expect(handle?.waitingPod('d/a')).toBeUndefined();
    expect(w.placeOf('b')).toBe('n');
  });

  it('stops waiting when the scheduler stops', async () => {
    await w.submit(pod('a', asking, { hold: 'yes' }));
    await w.end();
    expect(w.placeOf('a')).toBeUndefined();
  });
});
