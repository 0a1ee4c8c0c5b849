import { pods, services } from '@oarlock/api/resources';
import type { PodSpec, TopologySpreadConstraint } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
});
afterEach(() => w.stop());

const web = { app: 'web' };
const spread = (more: Partial<TopologySpreadConstraint> = {}): Partial<PodSpec> => ({
  topologySpreadConstraints: [
    { topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule', labelSelector: { matchLabels: web }, ...more },
  ],
});
const mismatchMessage = (count: number) => `${count} node(s) didn't match pod topology spread constraints`;
const on = (nodeName: string, spec: Partial<PodSpec> = {}): Partial<PodSpec> => ({ ...spec, nodeName });

describe('PodTopologySpread', () => {
  it('[sig-scheduling] SchedulerPredicates [Serial] PodTopologySpread Filtering validates 4 pods with MaxSkew=1 are evenly distributed into 2 nodes', async () => {
    w.seedNodes(node('a'), node('b'), node('bare', {}, { spec: { unschedulable: true } }));
    await w.start();
    const spec = spread({ topologyKey: 'kubernetes.io/hostname', nodeTaintsPolicy: 'Ignore' });
    const onTwo = { ...spec, nodeSelector: {}, affinity: notOn('bare') };
    await w.submit(...['1', '2', '3', '4'].map((name) => pod(name, onTwo, web)));
    expect(['1', '2', '3', '4'].map((name) => w.placeOf(name)).sort()).toEqual(['a', 'a', 'b', 'b']);
  });

  it('limits the skew between zones, reports the nodes that violate it, and retries when a pod is deleted', async () => {
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }, { cpu: '0' }), node('bare'));
    w.api.seed(pods, pod('old', on('a'), web));
    await w.start();
    const asking = { containers: [{ name: 'c', resources: { requests: { cpu: '1' } } }] };
    await w.submit(pod('new', { ...spread(), ...asking }, web));
    expect(w.whyNot('new')).toContain('0/3 nodes are available: 1 Insufficient cpu, ');
    expect(w.whyNot('new')).toContain(`${mismatchMessage(1)}, ${mismatchMessage(1)} (missing required label).`);
    await w.api.client().delete(pods, { namespace: 'd', name: 'old' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(1_100);
    expect(w.placeOf('new')).toBe('a');
  });

  it('ignores pods of other namespaces, with other labels, or terminating', async () => {
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }));
    const leaving = pod('leaving', on('a'), web);
    w.api.seed(pods, pod('elsewhere', on('a'), web, 'e'), pod('other', on('a'), { app: 'db' }), {
      ...leaving,
      metadata: { ...leaving.metadata, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['x/y'] },
    });
    await w.start();
    expect(w.explain(pod('new', spread(), web)).filter(({ rejectedBy }) => rejectedBy !== undefined)).toEqual([]);
  });

  it('minDomains: treats the global minimum as 0 with fewer domains', async () => {
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }));
    await w.start();
    const spec = spread({ minDomains: 3 });
    await w.submit(pod('1', spec, web), pod('2', spec, web), pod('3', spec, web));
    expect([w.placeOf('1'), w.placeOf('2')].sort()).toEqual(['a', 'b']);
    expect(w.whyNot('3')).toContain(`0/2 nodes are available: ${mismatchMessage(2)}.`);
  });

  it('matchLabelKeys: spreads pods of each revision separately', async () => {
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }));
    w.api.seed(pods, pod('old1', on('a'), { ...web, hash: '1' }));
    await w.start();
    const rejections = (hash: string) =>
      w
        .explain(pod('new', spread({ matchLabelKeys: ['hash'] }), { ...web, hash }))
        .flatMap(({ node: name, rejectedBy }) => (rejectedBy === undefined ? [] : [[name, rejectedBy]]));
    expect(rejections('1')).toEqual([['a', 'PodTopologySpread']]);
    expect(rejections('2')).toEqual([]);
  });

  it('nodeAffinityPolicy and nodeTaintsPolicy determine whether unreachable nodes count as domains', async () => {
    w.seedNodes(
      node('a', { zone: 'x' }),
      node('b', { zone: 'y' }),
      node('t', { zone: 'z' }, { spec: { taints: [{ key: 'k', effect: 'NoSchedule' }] } }),
    );
    w.api.seed(pods, pod('1', on('a'), web));
    await w.start();
    const rejections = (more: Partial<TopologySpreadConstraint>, spec: Partial<PodSpec> = {}) =>
      w
        .explain(pod('new', { ...spec, ...spread(more) }, web))
        .flatMap(({ node: name, rejectedBy }) => (rejectedBy === 'PodTopologySpread' ? [name] : []));
    const onlyA = { nodeSelector: { zone: 'x' } };
    expect(rejections({ nodeTaintsPolicy: 'Honor' }, onlyA)).toEqual([]);
    expect(rejections({ nodeAffinityPolicy: 'Ignore' }, onlyA)).toEqual(['a']);
    w.api.seed(pods, pod('2', on('b'), web));
    await w.clock.settle();
    expect(rejections({})).toEqual(['a', 'b']);
    expect(rejections({ nodeTaintsPolicy: 'Honor' })).toEqual([]);
  });

  it('[sig-scheduling] SchedulerPriorities [Serial] PodTopologySpread Scoring validates pod should be preferably scheduled to node which makes the matching pods more evenly distributed', async () => {
    w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'y' }));
    w.api.seed(pods, ...['1', '2', '3', '4'].map((name) => pod(name, on('a'), web)));
    await w.start();
    const answer = w.explain(pod('new', spread({ whenUnsatisfiable: 'ScheduleAnyway' }), web));
    const scores = Object.fromEntries(answer.map((each) => [each.node, each.scores?.['PodTopologySpread']]));
    expect(scores).toEqual({ a: 0, b: 200 });
  });

  it('default constraints spread the pods of a Service over hosts and zones, and no other pods', async () => {
    const zone = 'topology.kubernetes.io/zone';
    w.seedNodes(node('a', { [zone]: 'x' }), node('b', { [zone]: 'y' }));
    w.api.seed(services, { metadata: { namespace: 'd', name: 'web' }, spec: { selector: web } });
    w.api.seed(pods, ...['1', '2', '3', '4', '5', '6', '7', '8'].map((name) => pod(name, on('a'), web)));
    await w.start();
    const scores = (labels: Record<string, string>) =>
      Object.fromEntries(w.explain(pod('new', {}, labels)).map((each) => [each.node, each.scores?.['PodTopologySpread']]));
    const ofService = scores(web);
    expect(ofService['b']).toBe(200);
    expect(ofService['a']).toBeLessThan(100);
    expect(scores({ app: 'db' })).toEqual({ a: undefined, b: undefined });
  });
});

function notOn(name: string): NonNullable<PodSpec['affinity']> {
  return {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'NotIn', values: [name] }] }],
      },
    },
  };
}
