import { events, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { eventName } from '@oarlock/client/events/event-correlator';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import type { KubeObject } from '@oarlock/api/object';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';

const pod: KubeObject = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'd', name: 'web', uid: 'u1', resourceVersion: '7' } };

describe('EventBroadcaster', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let writer: EventBroadcaster;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    writer = new EventBroadcaster({ client: api.client(), clock, random: () => 0.5 });
  });

  it('writes core/v1 Events as client-go does', async () => {
    writer.recorder('kubelet', 'node-1').event(pod, 'Warning', 'BackOff', 'Back-off restarting', 'spec.containers{c}');
    await writer.flush();
    expect(api.objects(events)).toMatchObject([
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { namespace: 'd', name: `web.${(BigInt(clock.now()) * 1_000_000n).toString(16)}` },
        involvedObject: {
          apiVersion: 'v1',
          kind: 'Pod',
          namespace: 'd',
          name: 'web',
          uid: 'u1',
          resourceVersion: '7',
          fieldPath: 'spec.containers{c}',
        },
        reason: 'BackOff',
        message: 'Back-off restarting',
        type: 'Warning',
        count: 1,
        firstTimestamp: '2026-01-01T00:00:00Z',
        lastTimestamp: '2026-01-01T00:00:00Z',
        source: { component: 'kubelet', host: 'node-1' },
        reportingComponent: 'kubelet',
        reportingInstance: 'node-1',
      },
    ]);
    writer.recorder('c').event({ kind: 'Node', apiVersion: 'v1', metadata: { name: 'n1' } }, 'Normal', 'R', 'm');
    await writer.flush();
    expect(api.objects(events, 'default')).toHaveLength(1);
  });

  it('increments the count of a repeated event by patch', async () => {
    const recorder = writer.recorder('c');
    recorder.event(pod, 'Normal', 'Pulled', 'same');
    recorder.event({ ...pod, metadata: { ...pod.metadata, resourceVersion: '9' } }, 'Normal', 'Pulled', 'same');
    await writer.flush();
    await clock.advance(60_000);
    recorder.event(pod, 'Normal', 'Pulled', 'same');
    await writer.flush();
    expect(api.objects(events)).toMatchObject([
      { count: 3, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:01:00Z' },
    ]);
    expect(api.requests.map(({ verb }) => verb)).toEqual(['create', 'patch', 'patch']);
  });

  it('writes events with an action to events.k8s.io as client-go does: similar events form a series', async () => {
    const recorder = writer.recorder('default-scheduler', 'host');
    const preemptor = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'd', name: 'vip' } };
    const recordEvent = (message: string) =>
      recorder.event(pod, 'Normal', 'Preempted', message, undefined, { name: 'Preempting', related: preemptor });
    recordEvent('x'.repeat(2000));
    await writer.flush();
    const [first] = api.objects(events);
    expect(first).toMatchObject({
      eventTime: '2026-01-01T00:00:00.000000Z',
      action: 'Preempting',
      related: { kind: 'Pod', namespace: 'd', name: 'vip' },
      reportingComponent: 'default-scheduler',
      reportingInstance: 'default-scheduler-host',
      message: `${'x'.repeat(1020)} ...`,
    });
    expect(Object.keys(first ?? {})).not.toEqual(expect.arrayContaining(['count']));
    await clock.advance(1000);
    for (let more = 0; more < 3; more += 1) recordEvent('another');
    await writer.flush();
    // the second immediately, the others when the series ends
    expect(api.objects(events)).toMatchObject([{ series: { count: 2, lastObservedTime: '2026-01-01T00:00:01.000000Z' } }]);
    await clock.advance(6 * 60_000);
    await clock.advance(6 * 60_000);
    expect(api.objects(events)).toMatchObject([{ series: { count: 4 } }]);
    recordEvent('again');
    await writer.flush();
    expect(api.objects(events)).toHaveLength(2);
  });

  it('creates a new event if the counted one was deleted', async () => {
    const recorder = writer.recorder('c');
    recorder.event(pod, 'Normal', 'Pulled', 'same');
    await writer.flush();
    api.remove(events, { namespace: 'd', name: api.objects(events)[0]?.metadata?.name ?? '' });
    recorder.event(pod, 'Normal', 'Pulled', 'same');
    await writer.flush();
    expect(api.objects(events)).toMatchObject([{ count: 2 }]);
  });

  it('combines events that differ only in their message, from the tenth on, until ten minutes without events', async () => {
    const recorder = writer.recorder('c');
    for (let n = 0; n < 12; n += 1) recorder.event(pod, 'Normal', 'Scaled', `to ${n}`);
    await writer.flush();
    const stored = api.objects(events);
    expect(stored).toHaveLength(10);
    expect(stored.at(-1)).toMatchObject({ message: '(combined from similar events): to 11', count: 3 });
    await clock.advance(601_000);
    recorder.event(pod, 'Normal', 'Scaled', 'to 99');
    await writer.flush();
    expect(api.objects(events).at(-1)).toMatchObject({ message: 'to 99', count: 1 });
  });

  it('writes at most 25 events about an object at once, and then one in five minutes', async () => {
    const recorder = writer.recorder('c');
    for (let n = 0; n < 40; n += 1) recorder.event(pod, 'Normal', `Reason${n}`, 'm');
    writer.recorder('other').event(pod, 'Normal', 'Reason', 'm');
    await writer.flush();
    expect(api.objects(events)).toHaveLength(26);
    await clock.advance(300_000);
    for (let n = 40; n < 45; n += 1) recorder.event(pod, 'Normal', `Reason${n}`, 'm');
    await writer.flush();
    expect(api.objects(events)).toHaveLength(27);
  });

  it('retries while the server is unreachable, drops rejected events, and never throws', async () => {
    api.failNext({ verb: 'create' }, failure('ServiceUnavailable', 'down'), 2);
    api.failNext(({ body }) => (body as { reason?: string }).reason === 'No', failure('Forbidden', 'no'));
    const recorder = writer.recorder('c');
    recorder.event(pod, 'Normal', 'Yes', 'm');
    recorder.event(pod, 'Normal', 'No', 'm');
    await clock.advance(4900);
    expect(api.objects(events)).toEqual([]);
    await clock.advance(100 + 10_000);
    expect(api.objects(events).map(({ reason }) => reason)).toEqual(['Yes']);
  });

  it('queues at most 1000 events of a component', async () => {
    api.failNext({ verb: 'create' }, failure('ServiceUnavailable', 'down'));
    const recorder = writer.recorder('c');
    for (let n = 0; n < 1500; n += 1) recorder.event({ ...pod, metadata: { ...pod.metadata, uid: `u${n}` } }, 'Normal', 'R', 'm');
    await clock.advance(60_000);
    expect(api.objects(events)).toHaveLength(1000);
  });

  it('drops queued events when stopped', async () => {
    api.failNext({ verb: 'create' }, failure('ServiceUnavailable', 'down'), 100);
    writer.recorder('c').event(pod, 'Normal', 'R', 'm');
    await clock.settle();
    await writer.stop();
    writer.recorder('c').event(pod, 'Normal', 'R', 'm');
    await clock.settle();
    expect(api.requests.filter(({ resource }) => resource !== pods)).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it('truncates event names to the maximum length of a name', () => {
    expect(eventName('a', 255n)).toBe('a.ff');
    const long = eventName('x'.repeat(240) + '.'.repeat(13), 0x18a4c0ffee000000n);
    expect(long.length).toBeLessThanOrEqual(253);
    expect(long).toMatch(/x\.18a4c0ffee000000$/);
  });
});
