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
const excluded = { key: 'metadata.name', operator: 'NotIn', values: ['n1'] };

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
  it('excludes the node from a pod without an affinity', () => {
    const { spec } = podWithoutNode(pod('a'), 'n1');
    expect(spec).toEqual({
      containers: [],
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [excluded] }] } } },
    });
  });
  it('excludes the node from each term of an affinity, and keeps the rest', () => {
    const terms = [
      { matchExpressions: [{ key: 'disk', operator: 'Exists' }] },
      { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'] }] },
    ];
    const affinity = {
      podAffinity: { kept: true },
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
    };
    expect(podWithoutNode(pod('a', undefined, { affinity }), 'n1')['spec']).toMatchObject({
      affinity: {
        podAffinity: { kept: true },
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchExpressions: terms[0]?.matchExpressions, matchFields: [excluded] },
              { matchFields: [...(terms[1]?.matchFields ?? []), excluded] },
            ],
          },
        },
      },
    });
  });
});
