import { describe, expect, it } from 'vitest';
import { SchedulerCache } from '../../src/cache/scheduler-cache.ts';

const zone = 'topology.kubernetes.io/zone';
const node = (name: string, labels: Record<string, string> = {}) => ({ metadata: { name, labels } });
const pod = (name: string, nodeName: string, app = 'a') => ({
  metadata: { name, namespace: 'n', labels: { app } },
  spec: { nodeName, containers: [] },
});
const selection = {
  key: 'a',
  matches: (each: { metadata?: { labels?: Record<string, string> } }) => each.metadata?.labels?.['app'] === 'a',
};

describe('pod counts by node label', () => {
  it('follow changes of pods and of node labels', () => {
    const cache = new SchedulerCache();
    for (const [name, value] of Object.entries({ a1: 'a', a2: 'a', b1: 'b' })) cache.setNode(node(name, { [zone]: value }));
    cache.setPod(pod('one', 'a1'));
    const counts = () => Object.fromEntries(cache.podCountByLabel(selection, zone));
    expect(counts()).toEqual({ a: 1 });
    cache.setPod(pod('two', 'a2'));
    cache.setPod(pod('three', 'b1'));
    cache.setPod(pod('other', 'b1', 'b'));
    cache.setPod(pod('unseen', 'c1'));
    expect(counts()).toEqual({ a: 2, b: 1 });
    cache.setNode(node('a2', { [zone]: 'c' }));
    cache.setNode(node('c1', { [zone]: 'c' }));
    expect(counts()).toEqual({ a: 1, b: 1, c: 2 });
    cache.removePod('n/one');
    cache.removeNode('b1');
    expect(counts()).toEqual({ c: 2 });
    cache.setNode(node('a2'));
    expect(counts()).toEqual({ c: 1 });
    expect(Object.fromEntries(cache.podCountByNode(selection))).toEqual({ a2: 1, b1: 1, c1: 1 });
  });
});

describe('the node list', () => {
  it('is replaced if the labels of a node change, and only then', () => {
    const cache = new SchedulerCache();
    cache.setNode(node('a', { rack: '1' }));
    const first = cache.nodes;
    cache.setNode({ ...node('a', { rack: '1' }), status: { conditions: [] } });
    expect(cache.nodes).toBe(first);
    cache.setNode(node('a', { rack: '2' }));
    expect(cache.nodes).not.toBe(first);
  });
});
