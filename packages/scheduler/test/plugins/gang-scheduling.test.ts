import { nodes, podGroupsV1alpha2, pods } from '@oarlock/api/resources';
import type { PodGroup, PodGroupSpec } from '@oarlock/api/types/scheduling-v1alpha2';
import type { Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

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
  metadata: { namespace: 'd', name },
  spec: { schedulingPolicy: { gang: { minCount } }, ...more },
});
const member = (name: string, of: string, cpu = '1', more: Partial<PodSpec> = {}): Pod =>
  pod(name, {
    containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
    schedulingGroup: { podGroupName: of },
    ...more,
  });
const places = (...names: string[]) => names.map((name) => w.placeOf(name));
const conditionOf = (name: string) => w.api.object(podGroupsV1alpha2, { namespace: 'd', name })?.status?.conditions?.[0];

describe('gang scheduling', () => {
  it('gates pods until their group exists and has minCount pods, then binds them together', async () => {
    w.seedNodes(node('n'));
    await w.start();
    await w.submit(member('a', 'g'), member('b', 'g'));
    expect(w.scheduler.pendingPods.gated).toBe(2);
    await w.api.client().create(podGroupsV1alpha2, group('g', 3));
    await w.clock.settle();
    expect(w.scheduler.pendingPods.gated).toBe(2);
    await w.submit(member('c', 'g'));
    expect(places('a', 'b', 'c')).toEqual(['n', 'n', 'n']);
    expect(conditionOf('g')).toMatchObject({ type: 'PodGroupScheduled', status: 'True', reason: 'Scheduled' });
  });

  it('binds no member if too few fit, and reserves no resources meanwhile', async () => {
    w.seedNodes(node('n', {}, { cpu: '2' }));
    w.api.seed(podGroupsV1alpha2, group('g', 3));
    w.api.seed(pods, member('a', 'g'), member('b', 'g'), member('c', 'g'));
    await w.start();
    expect(places('a', 'b', 'c')).toEqual([undefined, undefined, undefined]);
    expect(conditionOf('g')).toMatchObject({ status: 'False', reason: 'Unschedulable' });
    expect(w.whyNot('a')).toContain('2 of at least 3 pods of the group can be scheduled: 0/1 nodes are available: 1 Insufficient cpu.');
    await w.submit(pod('single', { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '2' } } }] }));
    expect(w.placeOf('single')).toBe('n');
    await w.api.client().create(nodes, node('more'));
    await w.clock.advance(2100);
    expect(places('a', 'b', 'c')).toEqual(['more', 'more', 'more']);
  });

  it('does not let two groups deadlock with half of the resources each', async () => {
    w.seedNodes(node('n', {}, { cpu: '3' }));
    w.api.seed(podGroupsV1alpha2, group('g', 2), group('h', 2));
    w.api.seed(pods, member('g1', 'g'), member('h1', 'h'), member('g2', 'g'), member('h2', 'h'));
    await w.start();
    expect(places('g1', 'g2', 'h1', 'h2')).toEqual(['n', 'n', undefined, undefined]);
  });

  it('counts members that already run', async () => {
    w.seedNodes(node('n'));
    w.api.seed(podGroupsV1alpha2, group('g', 2));
    w.api.seed(pods, member('a', 'g', '1', { nodeName: 'n' }), member('b', 'g'));
    await w.start();
    expect(w.placeOf('b')).toBe('n');
  });

  it('keeps a group within one topology domain', async () => {
    w.seedNodes(
      node('a1', { rack: 'a' }, { cpu: '2' }),
      node('a2', { rack: 'a' }, { cpu: '1' }),
      node('b1', { rack: 'b' }, { cpu: '2' }),
      node('b2', { rack: 'b' }, { cpu: '2' }),
    );
    w.api.seed(podGroupsV1alpha2, group('g', 4, { schedulingConstraints: { topology: [{ key: 'rack' }] } }));
    w.api.seed(pods, ...['1', '2', '3', '4'].map((name) => member(name, 'g')));
    await w.start();
    expect(places('1', '2', '3', '4').every((place) => place?.startsWith('b'))).toBe(true);
  });

  it('ignores pods without a group, and groups without the gang policy', async () => {
    w.seedNodes(node('n'));
    w.api.seed(podGroupsV1alpha2, { ...group('g', 0), spec: { schedulingPolicy: { basic: {} } } });
    await w.start();
    await w.submit(member('a', 'g'), pod('b'));
    expect(places('a', 'b')).toEqual(['n', 'n']);
  });
});

it('is disabled on a server without pod groups', async () => {
  w.api.paths.delete('/apis/scheduling.k8s.io/v1alpha2');
  w.seedNodes(node('n'));
  await w.start();
  await w.submit(member('a', 'g'));
  expect(w.placeOf('a')).toBe('n');
});
