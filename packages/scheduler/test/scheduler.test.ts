import type { KubeObject } from '@oarlock/api/object';
import { nodes, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Node, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer } from '@oarlock/kernel/tracing';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import { configuration } from '@oarlock/scheduler/config/configuration';
import { makeProfiles } from '@oarlock/scheduler/config/profiles';
import { Scheduler } from '@oarlock/scheduler/scheduler';
import { SchedulerMetrics } from '@oarlock/scheduler/metrics/scheduler-metrics';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Scheduling } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let clock: FakeClock;
let api: MemoryApi;
let abort: AbortController;
let events: { reason: string; message: string }[];
let scheduler: Scheduler;
let registry: Registry;

async function start(): Promise<void> {
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Events, { recorder: () => ({ event() {} }) });
  for (const plugin of builtin) host.add({ plugin });
  await host.start();
  scheduler = new Scheduler({
    client: api.client(),
    informers: api.informers,
    profiles: makeProfiles(configuration.parse({}), host.get(Scheduling)),
    clock,
    log: silentLogger,
    tracer: noTracer,
    random: sequence(7),
    events: {
      recorder: () => ({
        event: (_about: KubeObject, _type: string, reason: string, message: string) => {
          events.push({ reason, message });
        },
      }),
    },
    metrics: new SchedulerMetrics({ registry, clock, pendingPods: () => scheduler.pendingPods }),
    parallelBinds: 10,
    initialBackoffMs: 1000,
    maxBackoffMs: 10_000,
  });
  void scheduler.run(abort.signal);
  await clock.settle();
}
beforeEach(() => {
  clock = new FakeClock();
  api = memoryApi({ clock });
  abort = new AbortController();
  events = [];
  registry = new Registry();
});
afterEach(async () => {
  abort.abort();
  await api.stop();
});

const node = (
  name: string,
  more: {
    labels?: Record<string, string>;
    spec?: Node['spec'];
    cpu?: string;
    memory?: string;
    pods?: string;
    images?: { names: string[]; sizeBytes: number }[];
  } = {},
): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: more.labels ?? {} },
  ...(more.spec && { spec: more.spec }),
  status: {
    allocatable: { cpu: more.cpu ?? '4', memory: more.memory ?? '8Gi', pods: more.pods ?? '110' },
    ...(more.images && { images: more.images }),
  },
});
const pod = (name: string, spec: Partial<PodSpec> = {}): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name },
  spec: { containers: [{ name: 'c', image: 'a:1' }], ...spec },
});
const asking = (cpu: string): Partial<PodSpec> => ({ containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }] });
const submit = async (...some: Pod[]) => {
  for (const each of some) await api.client().create(pods, each);
  await clock.settle();
};
const placeOf = (name: string) => api.object(pods, { namespace: 'd', name })?.spec?.nodeName;
const scheduled = (name: string) =>
  api.object(pods, { namespace: 'd', name })?.status?.conditions?.find(({ type }) => type === 'PodScheduled');

describe('scheduler', () => {
  it('binds a pod and emits a Scheduled event', async () => {
    api.seed(nodes, node('n'));
    await start();
    await submit(pod('a'));
    expect(placeOf('a')).toBe('n');
    expect(events).toContainEqual({ reason: 'Scheduled', message: 'Successfully assigned d/a to n' });
  });

  it('reports why no node fits, and retries when a node is added', async () => {
    api.seed(
      nodes,
      node('small', { cpu: '1' }),
      node('tainted', { spec: { taints: [{ key: 'x', effect: 'NoSchedule' }] } }),
      node('off', { spec: { unschedulable: true } }),
    );
    await start();
    await submit(pod('a', asking('2')));
    expect(placeOf('a')).toBeUndefined();
    const message =
      '0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. ' +
      'no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.';
    expect(scheduled('a')).toMatchObject({ status: 'False', reason: 'Unschedulable', message });
    expect(events).toContainEqual({ reason: 'FailedScheduling', message });
    await api.client().create(nodes, node('big', { cpu: '8' }));
    await clock.advance(1_100);
    expect(placeOf('a')).toBe('big');
  });

  it('skips the backoff while the active queue is empty', async () => {
    await start();
    await submit(pod('a', asking('2')));
    expect(scheduled('a')?.message).toBe('no nodes available to schedule pods');
    await api.client().create(nodes, node('small', { cpu: '1' }));
    await clock.settle();
    expect(scheduled('a')?.message).toBe(
      '0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.',
    );
    await api.client().create(nodes, node('big', { cpu: '8' }));
    await clock.settle();
    expect(placeOf('a')).toBe('big');
    expect(clock.monotonic()).toBe(0);
  });

  it('ignores pods of other schedulers and gated pods', async () => {
    api.seed(nodes, node('n'));
    await start();
    await submit(pod('other', { schedulerName: 'mine' }), pod('gated', { schedulingGates: [{ name: 'wait' }] }));
    expect([placeOf('other'), placeOf('gated')]).toEqual([undefined, undefined]);
    await api.client().patch(pods, { namespace: 'd', name: 'gated' }, 'merge', { spec: { schedulingGates: null } });
    await clock.settle();
    expect(placeOf('gated')).toBe('n');
  });

  it('leaves gated pods alone when other pods and nodes change: with thousands of them, each change took time in proportion', async () => {
    await start();
    await submit(...Array.from({ length: 20 }, (_, index) => pod(`gated-${index}`, { schedulingGates: [{ name: 'wait' }] })));
    await api.client().create(nodes, node('n'));
    await submit(pod('other'));
    expect(placeOf('other')).toBe('n');
    const { values } = (await registry.getSingleMetric('scheduler_queue_incoming_pods_total')?.get()) ?? { values: [] };
    const gated = values.filter(({ labels }) => labels['queue'] === 'unschedulable').reduce((sum, { value }) => sum + value, 0);
    expect(gated).toBe(20);
  });

  it('counts assumed pods before their watch events arrive', async () => {
    api.seed(nodes, node('n', { cpu: '1' }), node('m', { cpu: '1' }));
    await start();
    await submit(...['a', 'b', 'c'].map((name) => pod(name, asking('600m'))));
    expect([placeOf('a'), placeOf('b')].sort()).toEqual(['m', 'n']);
    expect(placeOf('c')).toBeUndefined();
    await api.client().delete(pods, { namespace: 'd', name: 'a' }, { gracePeriodSeconds: 0 });
    await clock.advance(1_100);
    expect(placeOf('c')).toBeDefined();
  });

  it('prefers the least allocated node', async () => {
    api.seed(nodes, node('a'), node('b'), node('c'));
    await start();
    await submit(...Array.from({ length: 9 }, (_, index) => pod(`p${index}`)));
    const counts = new Map<string, number>();
    for (const each of api.objects(pods)) counts.set(each.spec?.nodeName ?? '', (counts.get(each.spec?.nodeName ?? '') ?? 0) + 1);
    expect(Object.fromEntries(counts)).toEqual({ a: 3, b: 3, c: 3 });
  });

  it('backs off after a failed binding, and releases the resources meanwhile', async () => {
    api.seed(nodes, node('n'));
    await start();
    api.failNext({ verb: 'create', subresource: 'binding' }, failure('InternalError', 'no luck'));
    await submit(pod('a'));
    expect(placeOf('a')).toBeUndefined();
    expect(scheduled('a')).toMatchObject({ reason: 'SchedulerError', message: 'running Bind plugin "DefaultBinder": no luck' });
    await clock.advance(1_100);
    expect(placeOf('a')).toBe('n');
  });

  it('schedules pods of higher priority first', async () => {
    await start();
    await submit(pod('low', { ...asking('3'), priority: 1 }), pod('high', { ...asking('3'), priority: 9 }));
    await api.client().create(nodes, node('n'));
    await clock.advance(10_000);
    expect([placeOf('high'), placeOf('low')]).toEqual(['n', undefined]);
  });

  it('forgets a pod that is deleted while it is pending', async () => {
    await start();
    await submit(pod('a'));
    await api.client().delete(pods, { namespace: 'd', name: 'a' }, { gracePeriodSeconds: 0 });
    await clock.settle();
    expect(scheduler.pendingPods).toEqual({ active: 0, backoff: 0, unschedulable: 0, gated: 0 });
  });

  it('explains each node without a side effect', async () => {
    api.seed(nodes, node('n'), node('off', { spec: { unschedulable: true } }));
    await start();
    const answer = scheduler.explain([pod('a')])[0]?.nodes ?? [];
    expect(answer.find((each) => each.node === 'off')).toEqual({
      node: 'off',
      rejectedBy: 'NodeUnschedulable',
      reasons: ['node(s) were unschedulable'],
    });
    expect(answer.find((each) => each.node === 'n')?.scores).toMatchObject({ NodeResourcesFit: expect.any(Number) });
  });
});

describe('node constraints', () => {
  const affinity = (required: object): Partial<PodSpec> => ({
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [required] } } },
  });
  const cases: readonly [name: string, spec: Partial<PodSpec>, wanted: string | undefined][] = [
    ['node selector', { nodeSelector: { disk: 'ssd' } }, 'ssd'],
    ['node selector that nothing has', { nodeSelector: { disk: 'tape' } }, undefined],
    ['In', affinity({ matchExpressions: [{ key: 'disk', operator: 'In', values: ['hdd'] }] }), 'hdd'],
    ['NotIn', affinity({ matchExpressions: [{ key: 'disk', operator: 'NotIn', values: ['hdd'] }] }), 'ssd'],
    ['Gt', affinity({ matchExpressions: [{ key: 'size', operator: 'Gt', values: ['5'] }] }), 'hdd'],
    ['Lt', affinity({ matchExpressions: [{ key: 'size', operator: 'Lt', values: ['5'] }] }), 'ssd'],
    ['name field', affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['hdd'] }] }), 'hdd'],
    ['empty term', affinity({}), undefined],
    [
      'preferred',
      {
        affinity: {
          nodeAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [
              { weight: 100, preference: { matchExpressions: [{ key: 'disk', operator: 'In', values: ['hdd'] }] } },
            ],
          },
        },
      },
      'hdd',
    ],
  ];
  it.each(cases)('%s', async (_name, spec, wanted) => {
    api.seed(nodes, node('ssd', { labels: { disk: 'ssd', size: '1' } }), node('hdd', { labels: { disk: 'hdd', size: '9' } }));
    await start();
    await submit(pod('a', spec));
    expect(placeOf('a')).toBe(wanted);
  });

  it('reports terms whose node names exclude each other', async () => {
    api.seed(nodes, node('a'), node('b'));
    await start();
    const named = (name: string) => ({ key: 'metadata.name', operator: 'In', values: [name] });
    await submit(pod('p', affinity({ matchFields: [named('a'), named('b')] })));
    expect(scheduled('p')?.message).toMatch(/^0\/2 nodes are available: pod affinity terms conflict\. /);
  });

  it('schedules tolerating pods on tainted nodes, and avoids PreferNoSchedule taints', async () => {
    api.seed(
      nodes,
      node('hard', { spec: { taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }] } }),
      node('soft', { spec: { taints: [{ key: 's', effect: 'PreferNoSchedule' }] } }),
      node('free'),
    );
    await start();
    await submit(
      pod('plain'),
      pod('tolerant', { nodeSelector: {}, tolerations: [{ key: 'k', operator: 'Equal', value: 'v', effect: 'NoSchedule' }] }),
    );
    expect(placeOf('plain')).toBe('free');
    expect(['hard', 'free']).toContain(placeOf('tolerant'));
  });

  it('assigns a host port once per node', async () => {
    api.seed(nodes, node('n'));
    await start();
    const port = (hostIP?: string): Partial<PodSpec> => ({
      containers: [{ name: 'c', ports: [{ containerPort: 80, hostPort: 80, ...(hostIP && { hostIP }) }] }],
    });
    await submit(pod('a', port()), pod('b', port('10.0.0.1')));
    expect([placeOf('a'), placeOf('b')]).toEqual(['n', undefined]);
    expect(scheduled('b')?.message).toBe(
      "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    );
  });

  it('respects the maximum number of pods of a node', async () => {
    api.seed(nodes, node('n', { pods: '1' }));
    await start();
    await submit(pod('a'), pod('b'));
    expect(scheduled('b')?.message).toBe(
      '0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.',
    );
  });
});
