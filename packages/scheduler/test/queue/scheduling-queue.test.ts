import { SchedulingQueue } from '@oarlock/scheduler/queue/scheduling-queue';
import type { ClusterEventWithHint } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { pod } from '../support/test-scheduler.ts';

let clock: FakeClock;
let queue: SchedulingQueue;
let gated: ReadonlySet<string>;
let incoming: string[];
const waits: Readonly<Record<string, readonly ClusterEventWithHint[]>> = {
  Disk: [{ kind: 'CSINode', actions: ['added'] }],
  Room: [{ kind: 'AssignedPod', actions: ['deleted'], queueingHint: (_pod, old) => (old === 'large' ? 'queue' : 'skip') }],
};
beforeEach(() => {
  clock = new FakeClock();
  gated = new Set();
  incoming = [];
  queue = new SchedulingQueue({
    clock,
    less: (a, b) => (b.pod.spec?.priority ?? 0) - (a.pod.spec?.priority ?? 0),
    preEnqueueGate: ({ metadata }) => (gated.has(metadata?.name ?? '') ? 'Disk' : undefined),
    eventsToRegister: (_pod, plugin) => waits[plugin],
    initialBackoffMs: 1000,
    maxBackoffMs: 4000,
    onIncomingPod: (to, event) => incoming.push(`${event} ${to}`),
  });
});
const take = async () => {
  const waiting = await queue.pop();
  if (waiting === undefined) throw new Error('the queue is closed');
  return waiting;
};
const places = () => queue.pendingPods;

describe('the queue', () => {
  it('reports each pod that enters a sub-queue with the event of upstream’s metric', async () => {
    gated = new Set(['gated']);
    queue.add(pod('gated'), undefined);
    queue.add(pod('a'), undefined);
    queue.addUnschedulable(await take(), new Set(['Room']));
    queue.moveAllToActiveOrBackoffQueue({ kind: 'AssignedPod', action: 'deleted', oldObject: 'large', newObject: undefined }, undefined);
    await clock.advance(1000);
    queue.addUnschedulable(await take(), new Set(['Room']));
    queue.activate('d/a');
    await clock.advance(2000);
    queue.addUnschedulable(await take(), new Set());
    await clock.advance(1000);
    queue.addUnschedulable(await take(), new Set(['Room']));
    await clock.advance(5 * 60_000);
    expect(incoming).toEqual([
      'UnschedulablePodAdd unschedulable',
      'UnschedulablePodAdd active',
      'ScheduleAttemptFailure unschedulable',
      'AssignedPodDelete backoff',
      'BackoffComplete active',
      'ScheduleAttemptFailure unschedulable',
      'ForceActivate backoff',
      'BackoffComplete active',
      'ScheduleAttemptFailure backoff',
      'BackoffComplete active',
      'ScheduleAttemptFailure unschedulable',
      'UnschedulableTimeout active',
    ]);
  });

  it('moves a pod on an event that its rejecting plugin registered, and on no other', async () => {
    queue.add(pod('a'), undefined);
    queue.addUnschedulable(await take(), new Set(['Room']));
    queue.moveAllToActiveOrBackoffQueue({ kind: 'CSINode', action: 'added', oldObject: undefined, newObject: {} }, undefined);
    queue.moveAllToActiveOrBackoffQueue({ kind: 'AssignedPod', action: 'deleted', oldObject: 'small', newObject: undefined }, undefined);
    expect(places()).toMatchObject({ unschedulable: 1, backoff: 0 });
    queue.moveAllToActiveOrBackoffQueue({ kind: 'AssignedPod', action: 'deleted', oldObject: 'large', newObject: undefined }, undefined);
    expect(places()).toMatchObject({ unschedulable: 0, backoff: 1 });
  });

  it('keeps events that occur during a scheduling attempt', async () => {
    queue.add(pod('a'), undefined);
    queue.add(pod('b'), undefined);
    const [a, b] = [await take(), await take()];
    queue.moveAllToActiveOrBackoffQueue({ kind: 'AssignedPod', action: 'deleted', oldObject: 'large', newObject: undefined }, undefined);
    queue.addUnschedulable(a, new Set(['Disk']));
    queue.addUnschedulable(b, new Set(['Room']));
    expect(places()).toMatchObject({ unschedulable: 1, backoff: 1 });
  });

  it('moves a pod after its in-flight events were dropped for lack of space', async () => {
    queue.add(pod('a'), undefined);
    const a = await take();
    for (let index = 0; index < 25_000; index++)
      queue.moveAllToActiveOrBackoffQueue({ kind: 'AssignedPod', action: 'deleted', oldObject: 'small', newObject: undefined }, undefined);
    queue.addUnschedulable(a, new Set(['Disk']));
    expect(places()).toMatchObject({ unschedulable: 0, backoff: 1 });
  });

  it('keeps gated pods until the gating plugin allows them', () => {
    gated = new Set(['a']);
    queue.add(pod('a'), undefined);
    expect(places()).toMatchObject({ gated: 1, active: 0 });
    gated = new Set();
    queue.moveAllToActiveOrBackoffQueue({ kind: 'Node', action: 'added', oldObject: undefined, newObject: {} }, undefined);
    expect(places()).toMatchObject({ gated: 1, active: 0 });
    queue.moveAllToActiveOrBackoffQueue({ kind: 'CSINode', action: 'added', oldObject: undefined, newObject: {} }, undefined);
    expect(places()).toMatchObject({ gated: 0, active: 1 });
  });

  it('activates pods of one group from every sub-queue', async () => {
    for (const name of ['a', 'b', 'c', 'other']) queue.add(pod(name, {}, { group: name === 'other' ? 'y' : 'x' }), undefined);
    queue.addUnschedulable(await take(), new Set(['Disk']));
    const [b, ...rest] = [await take(), ...queue.popMatching(({ metadata }) => metadata?.labels?.['group'] === 'x')];
    expect([b, ...rest].map((each) => each?.pod.metadata?.name)).toEqual(['b', 'a', 'c']);
    expect(places()).toEqual({ active: 1, backoff: 0, unschedulable: 0, gated: 0 });
  });

  it('increases the backoff after errors, and flushes unschedulable pods after five minutes', async () => {
    queue.add(pod('a'), undefined);
    queue.addUnschedulable(await take(), new Set());
    const again = take();
    await clock.advance(999);
    expect(places()).toMatchObject({ backoff: 1 });
    await clock.advance(1);
    queue.addUnschedulable(await again, new Set(['Disk']));
    expect(places()).toMatchObject({ unschedulable: 1 });
    await clock.advance(5 * 60_000);
    expect(places()).toMatchObject({ unschedulable: 0, active: 1 });
  });

  it('counts errors apart from rejections for the backoff', async () => {
    queue.add(pod('a'), undefined);
    for (let round = 0; round < 3; round++) {
      queue.addUnschedulable(await take(), new Set(['Disk']));
      queue.requeueRejectedBy('Disk');
    }
    // the first error after three rejections
    queue.addUnschedulable(await take(), new Set());
    await clock.advance(999);
    expect(places()).toMatchObject({ backoff: 1 });
    await clock.advance(1);
    expect(places()).toMatchObject({ active: 1 });
    // the fourth rejection
    queue.addUnschedulable(await take(), new Set(['Disk']));
    queue.requeueRejectedBy('Disk');
    await clock.advance(3999);
    expect(places()).toMatchObject({ backoff: 1 });
  });

  it('flushes each unschedulable pod five minutes after its own attempt', async () => {
    queue.add(pod('a'), undefined);
    queue.addUnschedulable(await take(), new Set(['Disk']));
    await clock.advance(4 * 60_000);
    queue.add(pod('b'), undefined);
    queue.addUnschedulable(await take(), new Set(['Disk']));
    await clock.advance(60_000);
    expect(places()).toMatchObject({ unschedulable: 1, active: 1 });
    await clock.advance(4 * 60_000);
    expect(places()).toMatchObject({ unschedulable: 0, active: 2 });
  });

  it('moves pods rejected by a plugin that was replaced', async () => {
    for (const name of ['a', 'b']) queue.add(pod(name), undefined);
    queue.addUnschedulable(await take(), new Set(['Disk']));
    queue.addUnschedulable(await take(), new Set(['Room']));
    queue.requeueRejectedBy('Disk');
    expect(places()).toMatchObject({ unschedulable: 1, backoff: 1 });
  });
});
