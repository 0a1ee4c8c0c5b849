import { describe, expect, it } from 'vitest';
import type { Pod } from '../../../src/views/object/workload-kinds.ts';
import { displacedPods, maxEvaluated, podWithoutNode } from '../../../src/views/topology/node-loss.ts';

const pod = (name: string, owner?: string, spec: object = {}): Pod => ({
  metadata: {
    name,
    uid: name,
    resourceVersion: '1',
    ...(owner !== undefined && { ownerReferences: [{ apiVersion: 'apps/v1', kind: owner, name: 'o', uid: 'o', controller: true }] }),
  },
  spec: { nodeName: 'n1', containers: [], ...spec },
});

describe('displacedPods', () => {
  it('leaves out pods of DaemonSets and static pods', () => {
    const pods = [pod('a', 'ReplicaSet'), pod('b', 'DaemonSet'), pod('c', 'Node'), pod('d')];
    expect(displacedPods(pods).map(({ metadata }) => metadata.name)).toEqual(['a', 'd']);
  });
  it('is bounded', () => {
    expect(displacedPods(Array.from({ length: 300 }, (_, index) => pod(`p${index}`)))).toHaveLength(maxEvaluated);
  });
});

describe('podWithoutNode', () => {
  it('waits for a node, and keeps its constraints', () => {
    const affinity = { podAffinity: { kept: true } };
    expect(podWithoutNode(pod('a', undefined, { affinity }))).toMatchObject({ status: {}, spec: { containers: [], affinity } });
    expect(podWithoutNode(pod('a'))['spec']).not.toHaveProperty('nodeName');
  });
});
