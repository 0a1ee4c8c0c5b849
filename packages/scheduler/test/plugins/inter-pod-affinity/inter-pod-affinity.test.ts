import { namespaces, pods } from '@oarlock/api/resources';
import type { PodAffinityTerm, PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
  w.seedNodes(node('a', { zone: 'x' }), node('b', { zone: 'x' }), node('c', { zone: 'y' }), node('bare'));
});
afterEach(() => w.stop());

const web = { app: 'web' };
const term = (more: Partial<PodAffinityTerm> = {}): PodAffinityTerm => ({
  topologyKey: 'zone',
  labelSelector: { matchLabels: web },
  ...more,
});
const near = (...terms: PodAffinityTerm[]): Partial<PodSpec> => ({
  affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } },
});
const apart = (...terms: PodAffinityTerm[]): Partial<PodSpec> => ({
  affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } },
});
const fits = (spec: Partial<PodSpec>, labels: Record<string, string> = {}) =>
  w
    .explain(pod('new', spec, labels))
    .flatMap(({ node: name, rejectedBy }) => (rejectedBy === undefined ? [name] : []))
    .sort();
const scores = (spec: Partial<PodSpec>, labels: Record<string, string> = {}) =>
  Object.fromEntries(w.explain(pod('new', spec, labels)).map((each) => [each.node, each.scores?.['InterPodAffinity']]));

describe('InterPodAffinity', () => {
  it('required affinity: selects the topology domain of a matching pod', async () => {
    w.api.seed(pods, pod('1', { nodeName: 'a' }, web));
    await w.start();
    expect(fits(near(term()))).toEqual(['a', 'b']);
    expect(fits(near(term({ topologyKey: 'kubernetes.io/hostname' })))).toEqual(['a']);
    expect(fits(near(term(), term({ labelSelector: { matchLabels: { tier: 'front' } } })))).toEqual([]);
  });

  it('required affinity: the first pod of a group that matches itself may run in any domain with the label', async () => {
    await w.start();
    expect(fits(near(term()), web)).toEqual(['a', 'b', 'c']);
    expect(fits(near(term()))).toEqual([]);
  });

  it('required affinity: reports the reason, and retries when a matching pod is added', async () => {
    await w.start();
    await w.submit(pod('new', near(term())));
    expect(w.whyNot('new')).toContain("0/4 nodes are available: 4 node(s) didn't match pod affinity rules.");
    await w.submit(pod('1', { nodeSelector: { zone: 'y' } }, web));
    await w.clock.advance(1_100);
    expect(w.placeOf('new')).toBe('c');
  });

  it('required anti-affinity: avoids matching pods, and pods whose anti-affinity matches', async () => {
    w.api.seed(
      pods,
      pod('1', { nodeName: 'a' }, web),
      pod('2', { nodeName: 'c', ...apart(term({ labelSelector: { matchLabels: { app: 'db' } } })) }),
    );
    await w.start();
    expect(fits(apart(term()))).toEqual(['bare', 'c']);
    expect(fits({}, { app: 'db' })).toEqual(['a', 'b', 'bare']);
    expect(fits({}, { app: 'cache' })).toEqual(['a', 'b', 'bare', 'c']);
    await w.submit(
      pod('new', { ...apart(term()), nodeSelector: { zone: 'x' } }),
      pod('db', { nodeSelector: { zone: 'y' } }, { app: 'db' }),
    );
    expect(w.whyNot('new')).toContain("2 node(s) didn't match pod anti-affinity rules");
    expect(w.whyNot('db')).toContain("1 node(s) didn't satisfy existing pods anti-affinity rules");
    await w.api.client().delete(pods, { namespace: 'd', name: '2' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(1_100);
    expect(w.placeOf('db')).toBe('c');
  });

  it('required anti-affinity: one pod per host for replicas that match themselves', async () => {
    await w.start();
    const spec = apart(term({ topologyKey: 'kubernetes.io/hostname' }));
    await w.submit(...['1', '2', '3', '4', '5'].map((name) => pod(name, spec, web)));
    expect(['1', '2', '3', '4'].map((name) => w.placeOf(name)).sort()).toEqual(['a', 'b', 'bare', 'c']);
    expect(w.placeOf('5')).toBeUndefined();
  });

  it('selects namespaces by name and by label', async () => {
    w.api.seed(namespaces, { metadata: { name: 'e', labels: { team: 'blue' } } }, { metadata: { name: 'd' } });
    w.api.seed(pods, pod('1', { nodeName: 'a' }, web, 'e'));
    await w.start();
    expect(fits(near(term()))).toEqual([]);
    expect(fits(near(term({ namespaces: ['e'] })))).toEqual(['a', 'b']);
    expect(fits(near(term({ namespaceSelector: {} })))).toEqual(['a', 'b']);
    expect(fits(near(term({ namespaceSelector: { matchLabels: { team: 'blue' } } })))).toEqual(['a', 'b']);
    expect(fits(near(term({ namespaceSelector: { matchLabels: { team: 'red' } } })))).toEqual([]);
    await w.api.client().patch(namespaces, { name: 'e' }, 'merge', { metadata: { labels: { team: 'red' } } });
    await w.clock.settle();
    expect(fits(near(term({ namespaceSelector: { matchLabels: { team: 'red' } } })))).toEqual(['a', 'b']);
  });

  it('matchLabelKeys and mismatchLabelKeys narrow a term by the labels of the pod itself', async () => {
    w.api.seed(pods, pod('1', { nodeName: 'a' }, { ...web, hash: '1' }), pod('2', { nodeName: 'c' }, { ...web, hash: '2' }));
    await w.start();
    expect(fits(near(term({ matchLabelKeys: ['hash'] })), { hash: '1' })).toEqual(['a', 'b']);
    expect(fits(near(term({ mismatchLabelKeys: ['hash'] })), { hash: '1' })).toEqual(['c']);
  });

  it('preferred terms of the pod add and subtract weight', async () => {
    w.api.seed(pods, pod('1', { nodeName: 'a' }, web));
    await w.start();
    const preferred = [{ weight: 10, podAffinityTerm: term() }];
    expect(scores({ affinity: { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred } } })).toEqual({
      a: 200,
      b: 200,
      bare: 0,
      c: 0,
    });
    expect(scores({ affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferred } } })).toEqual({
      a: 0,
      b: 0,
      bare: 200,
      c: 200,
    });
  });

  it('preferred terms of existing pods add weight; without any term no node is scored', async () => {
    await w.start();
    expect(scores({}, web)).toEqual({ a: undefined, b: undefined, bare: undefined, c: undefined });
    w.api.seed(pods, pod('1', { nodeName: 'c', ...near(term()) }));
    await w.clock.settle();
    expect(scores({}, web)).toMatchObject({ a: 0, c: 200 });
  });
});
