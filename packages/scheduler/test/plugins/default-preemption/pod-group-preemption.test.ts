import { podDisruptionBudgets, podGroupsV1alpha2, pods } from '@oarlock/api/resources';
import type { Pod, PodSpec } from '@oarlock/api/types/core-v1';
import type { PodGroup, PodGroupSpec } from '@oarlock/api/types/scheduling-v1alpha2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
  w.api.paths.set('/apis/scheduling.k8s.io/v1alpha2', {
    kind: 'APIResourceList',
    resources: [{ name: 'podgroups' }, { name: 'workloads' }],
  });
});
afterEach(() => w.stop());

const group = (name: string, minCount: number, more: Partial<PodGroupSpec> = {}): PodGroup => ({
  apiVersion: 'scheduling.k8s.io/v1alpha2',
  kind: 'PodGroup',
  metadata: { namespace: 'd', name, uid: `uid-of-${name}` },
  spec: { schedulingPolicy: { gang: { minCount } }, ...more },
});
const needs = (cpu: string, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
  ...more,
});
const member = (name: string, of: string, more: Partial<PodSpec> = {}): Pod =>
  pod(name, needs('2', { schedulingGroup: { podGroupName: of }, ...more }));
const running = (name: string, on: string, priority: number, more: Partial<PodSpec> = {}, labels = {}): Pod => ({
  ...pod(name, needs('2', { nodeName: on, priority, ...more }), labels),
  status: { phase: 'Running', startTime: '2026-01-01T00:00:00Z' },
});
/** As the kubelets do after the containers have ended. */
const letGo = async (...names: string[]) => {
  for (const name of names) await w.api.client().delete(pods, { namespace: 'd', name }, { gracePeriodSeconds: 0 });
  await w.clock.advance(15_000);
};
const left = (...names: string[]) =>
  names.filter((name) => w.podOf(name) !== undefined && w.podOf(name)?.metadata?.deletionTimestamp === undefined);

describe('pod group preemption', () => {
  it('preempts as few pods as the whole group needs, lowest priority first, and nominates the nodes', async () => {
    w.seedNodes(node('n1'), node('n2'));
    w.api.seed(podGroupsV1alpha2, group('g', 2, { priority: 100 }));
    w.api.seed(pods, running('a', 'n1', 1), running('b', 'n1', 2), running('c', 'n2', 3), running('d', 'n2', 4));
    await w.start();
    await w.submit(member('x', 'g', { priority: 100 }), member('y', 'g', { priority: 100 }));
    await w.clock.advance(15_000);
    expect(left('a', 'b', 'c', 'd')).toEqual(['c', 'd']);
    expect(['x', 'y'].map((name) => w.podOf(name)?.status?.nominatedNodeName)).toEqual(['n1', 'n1']);
    await w.submit(pod('other', needs('2', { priority: 50, preemptionPolicy: 'Never' })));
    await letGo('a', 'b');
    expect(['x', 'y', 'other'].map((name) => w.placeOf(name))).toEqual(['n1', 'n1', undefined]);
    expect(w.told.filter(({ reason }) => reason === 'Preempted')).toEqual(
      // the least important pod last
      ['b', 'a'].map((about) =>
        expect.objectContaining({ about, type: 'Normal', message: 'Preempted by podgroup uid-of-g on node cluster' }),
      ),
    );
  });

  it('preempts no pod if the group would still not fit', async () => {
    w.seedNodes(node('n1'));
    w.api.seed(podGroupsV1alpha2, group('g', 3, { priority: 100 }));
    w.api.seed(pods, running('a', 'n1', 1), running('b', 'n1', 2));
    await w.start();
    await w.submit(member('x', 'g'), member('y', 'g'), member('z', 'g'));
    await w.clock.advance(15_000);
    expect(left('a', 'b')).toEqual(['a', 'b']);
    expect(w.whyNot('x')).toContain('preemption: Preemption is not helpful for scheduling');
  });

  it('compares the priority of groups, not of their pods', async () => {
    w.seedNodes(node('n1'));
    w.api.seed(podGroupsV1alpha2, group('g', 1, { priority: 10 }), group('strong', 1, { priority: 20 }), group('weak', 1, { priority: 5 }));
    const of = (podGroupName: string) => ({ schedulingGroup: { podGroupName } });
    w.api.seed(pods, running('a', 'n1', 0, of('strong')), running('b', 'n1', 1000, of('weak')));
    await w.start();
    await w.submit(member('x', 'g'));
    await w.clock.advance(15_000);
    expect(left('a', 'b')).toEqual(['a']);
    await letGo('b');
    expect(w.placeOf('x')).toBe('n1');
  });

  it('preempts a group with disruption mode PodGroup on all its nodes, and single pods of the same priority first', async () => {
    w.seedNodes(node('n1', {}, { cpu: '2' }), node('n2', {}, { cpu: '2' }), node('n3', {}, { cpu: '2' }));
    const of = { schedulingGroup: { podGroupName: 'whole' } };
    w.api.seed(podGroupsV1alpha2, group('whole', 2, { priority: 1, disruptionMode: 'PodGroup' }), group('g', 1, { priority: 100 }));
    w.api.seed(pods, running('a', 'n1', 1, of), running('b', 'n2', 1, of), running('single', 'n3', 1));
    await w.start();
    await w.submit(member('x', 'g'));
    await w.clock.advance(15_000);
    expect(left('a', 'b', 'single')).toEqual(['a', 'b']);
    w.api.seed(podGroupsV1alpha2, group('h', 1, { priority: 50 }));
    await w.submit(member('y', 'h'));
    await w.clock.advance(15_000);
    expect(left('a', 'b')).toEqual([]);
  });

  it('respects PodDisruptionBudgets', async () => {
    w.seedNodes(node('n1'));
    w.api.seed(podGroupsV1alpha2, group('g', 1, { priority: 100 }));
    w.api.seed(podDisruptionBudgets, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { namespace: 'd', name: 'p' },
      spec: { selector: { matchLabels: { app: 'kept' } } },
      status: { disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 },
    });
    w.api.seed(pods, running('kept', 'n1', 1, {}, { app: 'kept' }), running('more-important', 'n1', 2));
    await w.start();
    await w.submit(member('x', 'g'));
    await w.clock.advance(15_000);
    expect(left('kept', 'more-important')).toEqual(['kept']);
  });

  it('does not preempt for a group with a member whose preemptionPolicy is Never', async () => {
    w.seedNodes(node('n1'));
    w.api.seed(podGroupsV1alpha2, group('g', 2, { priority: 100 }));
    w.api.seed(pods, running('a', 'n1', 1));
    await w.start();
    await w.submit(member('x', 'g'), member('y', 'g', { preemptionPolicy: 'Never' }));
    await w.clock.advance(15_000);
    expect(left('a')).toEqual(['a']);
    expect(w.whyNot('x')).toContain('preemption: not eligible due to preemptionPolicy=Never.');
  });
});
