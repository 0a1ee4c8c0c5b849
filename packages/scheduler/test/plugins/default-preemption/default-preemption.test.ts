import { podDisruptionBudgets, pods } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { newPodInfo } from '@oarlock/scheduler/pod-info/pod-info';
import { pickOneNodeForPreemption } from '@oarlock/scheduler/plugins/default-preemption/candidates';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
});
afterEach(() => w.stop());

const asking = (cpu: string, priority: number, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
  priority,
  ...more,
});
const on = (nodeName: string) => ({ nodeName });
/** A finalizer keeps the pod until it is removed, like a pod whose containers are terminating. */
const held = (one: Pod): Pod => ({ ...one, metadata: { ...one.metadata, finalizers: ['example.com/hold'] } });
const letGo = async (name: string) => {
  await w.api.client().patch(pods, { namespace: 'd', name }, 'merge', { metadata: { finalizers: null } });
  // as the kubelet does after the containers have ended
  await w.api.client().delete(pods, { namespace: 'd', name }, { gracePeriodSeconds: 0 });
  await w.clock.advance(1_100);
};
const isLeaving = (name: string) => w.podOf(name)?.metadata?.deletionTimestamp !== undefined;

describe('DefaultPreemption', () => {
  it('[sig-scheduling] SchedulerPreemption [Serial] validates basic preemption works', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }), node('b', {}, { cpu: '1' }));
    w.api.seed(pods, pod('medium', asking('800m', 100, on('a'))), held(pod('low', asking('800m', 1, on('b')))));
    await w.start();
    await w.submit(pod('high', asking('800m', 1000)));
    expect(isLeaving('low')).toBe(true);
    expect(w.podOf('medium')).toBeDefined();
    expect(w.podOf('high')?.status?.nominatedNodeName).toBe('b');
    expect(w.placeOf('high')).toBeUndefined();
    await letGo('low');
    expect(w.placeOf('high')).toBe('b');
    expect(isLeaving('medium')).toBe(false);
  });

  it('counts its attempts and observes the number of victims', async () => {
    const metrics = () => w.pluginMetrics('scheduling-default-preemption');
    w.seedNodes(node('a', {}, { cpu: '1' }));
    w.api.seed(pods, pod('low', asking('400m', 1, on('a'))), pod('other', asking('400m', 1, on('a'))));
    await w.start();
    await w.submit(pod('too-large', asking('2', 1000)));
    expect(await metrics()).toMatch(/^scheduler_preemption_attempts_total 1$/m);
    expect(await metrics()).toMatch(/^scheduler_preemption_victims_count 0$/m);
    await w.submit(pod('high', asking('1', 1000)));
    expect(await metrics()).toMatch(/^scheduler_preemption_attempts_total 2$/m);
    expect(await metrics()).toMatch(/^scheduler_preemption_victims_sum 2$/m);
  });

  it('[sig-scheduling] SchedulerPreemption [Serial] validates lower priority pod preemption by critical pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }));
    w.api.seed(pods, held(pod('low', asking('800m', 1, on('a')))));
    await w.start();
    await w.submit(pod('critical', asking('800m', 2_000_000_000, { priorityClassName: 'system-cluster-critical' }), {}, 'kube-system'));
    expect(isLeaving('low')).toBe(true);
    await letGo('low');
    expect(w.placeOf('critical', 'kube-system')).toBe('a');
  });

  it('[sig-scheduling] SchedulerPreemption [Serial] validates pod disruption condition is added to the preempted pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }));
    w.api.seed(pods, held(pod('low', asking('800m', 1, on('a')))));
    await w.start();
    await w.submit(pod('high', asking('800m', 1000)));
    expect(w.podOf('low')?.status?.conditions).toContainEqual({
      type: 'DisruptionTarget',
      observedGeneration: 1,
      status: 'True',
      reason: 'PreemptionByScheduler',
      message: 'default-scheduler: preempting to accommodate a higher priority pod',
      lastTransitionTime: expect.any(String),
    });
    expect(w.told).toContainEqual({
      about: 'low',
      type: 'Normal',
      reason: 'Preempted',
      message: `Preempted by pod ${w.podOf('high')?.metadata?.uid} on node a`,
    });
  });

  it('preempts as few pods as possible, lowest priority first', async () => {
    w.seedNodes(node('a', {}, { cpu: '4' }));
    w.api.seed(
      pods,
      pod('1', asking('1', 1, on('a'))),
      pod('2', asking('1', 2, on('a'))),
      pod('3', asking('1', 3, on('a'))),
      pod('4', asking('1', 50, on('a'))),
    );
    await w.start();
    await w.submit(pod('high', asking('2', 10)));
    await w.clock.advance(1_100);
    expect(['1', '2', '3', '4'].map((name) => w.podOf(name) !== undefined && !isLeaving(name))).toEqual([false, false, true, true]);
    expect(w.told.filter(({ reason }) => reason === 'Preempted').map(({ about }) => about)).toEqual(expect.arrayContaining(['1', '2']));
  });

  it('prefers victims without a violated PodDisruptionBudget', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }), node('b', {}, { cpu: '1' }));
    w.api.seed(podDisruptionBudgets, {
      metadata: { namespace: 'd', name: 'p' },
      spec: { selector: { matchLabels: { app: 'db' } } },
      status: { disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 },
    });
    w.api.seed(
      pods,
      held(pod('guarded', asking('1', 1, on('a')), { app: 'db' })),
      held(pod('free', asking('1', 5, on('b')), { app: 'web' })),
    );
    await w.start();
    await w.submit(pod('high', asking('1', 10)));
    expect([isLeaving('guarded'), isLeaving('free')]).toEqual([false, true]);
    // if there are no others, priority outweighs the budget
    await w.submit(pod('higher', asking('1', 20, { nodeSelector: { 'kubernetes.io/hostname': 'a' } })));
    expect(isLeaving('guarded')).toBe(true);
  });

  it('preemptionPolicy Never preempts no pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }));
    w.api.seed(pods, pod('low', asking('1', 1, on('a'))));
    await w.start();
    await w.submit(pod('high', asking('1', 1000, { preemptionPolicy: 'Never' })));
    expect(isLeaving('low')).toBe(false);
    expect(w.whyNot('high')).toBe(
      '0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.',
    );
  });

  it('reports why preemption does not help', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }), node('b', {}, { cpu: '1' }), node('off', {}, { spec: { unschedulable: true } }));
    w.api.seed(
      pods,
      pod('same', asking('1', 10, on('a'))),
      pod('low', asking('400m', 1, on('b'))),
      pod('top', asking('600m', 10, on('b'))),
    );
    await w.start();
    await w.submit(pod('new', asking('1', 10)));
    expect(w.whyNot('new')).toBe(
      '0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: ' +
        '1 Insufficient cpu, 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.',
    );
    expect(isLeaving('low')).toBe(false);
  });

  it('reserves the resources for the nominated pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '2' }));
    w.api.seed(pods, held(pod('1', asking('2', 1, on('a')))));
    await w.start();
    await w.submit(pod('high', asking('1500m', 1000)));
    await w.submit(pod('late', asking('1', 5)));
    expect(w.placeOf('late')).toBeUndefined();
    await letGo('1');
    expect([w.placeOf('high'), w.placeOf('late')]).toEqual(['a', undefined]);
  });

  it('releases the resources of a deleted nominated pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '2' }));
    w.api.seed(pods, held(pod('1', asking('1', 1, on('a')))));
    await w.start();
    await w.submit(pod('high', asking('2', 1000)));
    await w.submit(pod('late', asking('1', 5)));
    expect(w.placeOf('late')).toBeUndefined();
    await w.api.client().delete(pods, { namespace: 'd', name: 'high' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(1_100);
    expect(w.placeOf('late')).toBe('a');
  });

  it('deletes the least important victim last, and only after the others', async () => {
    w.seedNodes(node('a', {}, { cpu: '3' }));
    w.api.seed(pods, ...['1', '2', '3'].map((name) => held(pod(name, asking('1', Number(name), on('a'))))));
    await w.start();
    w.api.failNext({ verb: 'delete', resource: pods }, failure('InternalError', 'boom'));
    await w.submit(pod('high', asking('3', 1000)));
    await letGo('2');
    const preempted = w.told.filter(({ reason }) => reason === 'Preempted').map(({ about }) => about);
    expect(preempted[0]).toBe('2');
    expect(preempted.indexOf('3')).toBeGreaterThan(0);
    expect(preempted.indexOf('1')).toBe(preempted.length - 1);
  });

  it('does not report victims that are already terminating', async () => {
    w.seedNodes(node('a', {}, { cpu: '2' }));
    w.api.seed(pods, held(pod('leaving', asking('1', 1, on('a')))), held(pod('low', asking('1', 1, on('a')))));
    await w.api.client().delete(pods, { namespace: 'd', name: 'leaving' });
    await w.start();
    await w.submit(pod('high', asking('2', 1000)));
    expect(w.told.filter(({ reason }) => reason === 'Preempted').map(({ about }) => about)).toEqual(['low']);
  });

  it('waits for terminating victims before it preempts more pods', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }), node('b', {}, { cpu: '1' }));
    w.api.seed(pods, held(pod('1', asking('1', 1, on('a')))), held(pod('2', asking('1', 2, on('b')))));
    await w.start();
    await w.submit(pod('high', asking('1', 1000)));
    await w.clock.advance(30_000);
    // no event has occurred that could help
    expect(w.whyNot('high')).toBe('0/2 nodes are available: 2 Insufficient cpu.');
    await w.clock.advance(5 * 60_000);
    expect([isLeaving('1'), isLeaving('2')]).toEqual([true, false]);
    expect(w.whyNot('high')).toContain('preemption: not eligible due to a terminating pod on the nominated node.');
  });

  it('a pod of higher priority takes the resources reserved for a nominated pod', async () => {
    w.seedNodes(node('a', {}, { cpu: '1' }));
    w.api.seed(pods, held(pod('1', asking('1', 1, on('a')))));
    await w.start();
    await w.submit(pod('high', asking('1', 10)));
    expect(w.podOf('high')?.status?.nominatedNodeName).toBe('a');
    await w.submit(pod('higher', asking('1', 20)));
    expect(w.podOf('higher')?.status?.nominatedNodeName).toBe('a');
    expect(w.podOf('high')?.status?.nominatedNodeName).toBeUndefined();
    await letGo('1');
    expect([w.placeOf('high'), w.placeOf('higher')]).toEqual([undefined, 'a']);
  });

  it('preempts a pod that conflicts only by anti-affinity or by a topology spread constraint', async () => {
    const web = { app: 'web' };
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }, { spec: { unschedulable: true } }));
    const required = [{ topologyKey: 'zone', labelSelector: { matchLabels: web } }];
    w.api.seed(
      pods,
      held(
        pod('lonely', {
          ...on('a'),
          priority: 1,
          affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } },
        }),
      ),
      pod('other', { ...on('a'), priority: 1 }),
    );
    await w.start();
    await w.submit(pod('high', { priority: 9 }, web));
    expect([isLeaving('lonely'), isLeaving('other')]).toEqual([true, false]);
    await letGo('lonely');
    expect(w.placeOf('high')).toBe('a');
    const spread = [{ topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule', labelSelector: { matchLabels: web } }];
    await w.submit(pod('highest', { priority: 99, topologySpreadConstraints: spread }, web));
    expect(isLeaving('high')).toBe(true);
    await letGo('high');
    expect(w.placeOf('highest')).toBe('a');
  });
});

describe('limits of candidates', () => {
  it('do not end the search before a node violates no PodDisruptionBudget', async () => {
    w.stop();
    const args = { minCandidateNodesAbsolute: 1, minCandidateNodesPercentage: 0 };
    w = testScheduler({ profiles: [{ pluginConfig: [{ name: 'DefaultPreemption', args }] }] });
    w.seedNodes(...['a', 'b', 'c'].map((name) => node(name, {}, { cpu: '1' })));
    const guarded = { app: 'guarded' };
    w.api.seed(
      pods,
      pod('1', asking('800m', 1, on('a')), guarded),
      pod('2', asking('800m', 1, on('b')), guarded),
      held(pod('3', asking('800m', 2, on('c')))),
    );
    w.api.seed(podDisruptionBudgets, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { namespace: 'd', name: 'guarded' },
      spec: { selector: { matchLabels: guarded } },
      status: { currentHealthy: 2, desiredHealthy: 2, expectedPods: 2, disruptionsAllowed: 0 },
    });
    await w.start();
    await w.submit(pod('high', asking('800m', 1000)));
    expect(w.podOf('high')?.status?.nominatedNodeName).toBe('c');
  });
});

describe('candidate selection', () => {
  const victim = (name: string, priority: number, startTime?: string) => {
    const one = pod(name, { priority });
    const metadata = { ...one.metadata, creationTimestamp: '2025-01-01T00:00:00Z' };
    return newPodInfo({ ...one, metadata, ...(startTime !== undefined && { status: { startTime } }) });
  };
  const early = '2026-01-01T00:00:00Z';
  const late = '2026-01-02T00:00:00Z';
  const cases = [
    [
      'fewest PodDisruptionBudget violations',
      { pdbViolations: 1, victims: [victim('1', 1)] },
      { pdbViolations: 0, victims: [victim('2', 9)] },
    ],
    [
      'lowest priority of the highest victim',
      { pdbViolations: 0, victims: [victim('1', 9)] },
      { pdbViolations: 0, victims: [victim('2', 5), victim('3', 5)] },
    ],
    [
      'smallest sum of priorities',
      { pdbViolations: 0, victims: [victim('1', 5), victim('2', 4)] },
      { pdbViolations: 0, victims: [victim('3', 5), victim('4', -4)] },
    ],
    [
      'fewest victims, even if their priorities are negative',
      { pdbViolations: 0, victims: [victim('1', -5), victim('2', -5)] },
      { pdbViolations: 0, victims: [victim('3', -5)] },
    ],
    ['no start', { pdbViolations: 0, victims: [victim('1', 5, late)] }, { pdbViolations: 0, victims: [victim('2', 5)] }],
    ['latest start', { pdbViolations: 0, victims: [victim('1', 5, early)] }, { pdbViolations: 0, victims: [victim('2', 5, late)] }],
  ] as const;
  it.each(cases)('%s', (_name, worse, better) => {
    expect(
      pickOneNodeForPreemption([
        { node: 'worse', ...worse },
        { node: 'better', ...better },
      ])?.node,
    ).toBe('better');
  });
  it('the first of equal candidates', () => {
    const equal = { pdbViolations: 0, victims: [victim('1', 1, early)] };
    expect(
      pickOneNodeForPreemption([
        { node: 'a', ...equal },
        { node: 'b', ...equal },
      ])?.node,
    ).toBe('a');
    expect(pickOneNodeForPreemption([])).toBeUndefined();
  });
});
