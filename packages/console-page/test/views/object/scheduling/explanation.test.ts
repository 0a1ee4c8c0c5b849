import { describe, expect, it } from 'vitest';
import { changedPod, scoresText, sortedVerdicts } from '../../../../src/views/object/scheduling/explanation.ts';

const unchanged = { cpu: '', memory: '', toleratesAll: false, ignoresNodeSelector: false };
const pod = {
  metadata: { name: 'a', namespace: 'n', uid: 'u', resourceVersion: '1' },
  spec: {
    nodeName: 'one',
    nodeSelector: { disk: 'ssd' },
    affinity: { nodeAffinity: {} },
    tolerations: [{ key: 'k', operator: 'Exists' }],
    priority: 5,
    containers: [{ name: 'main', resources: { requests: { cpu: '100', memory: '1Gi' } } }, { name: 'side' }],
  },
  status: { phase: 'Pending' },
};

describe('changedPod', () => {
  it('changes the requests of the first container, and keeps what is not changed', () => {
    expect(changedPod(pod, { ...unchanged, cpu: '500m' })['spec']).toEqual({
      nodeSelector: { disk: 'ssd' },
      affinity: { nodeAffinity: {} },
      tolerations: [{ key: 'k', operator: 'Exists' }],
      priority: 5,
      containers: [{ name: 'main', resources: { requests: { cpu: '500m', memory: '1Gi' } } }, { name: 'side' }],
    });
  });
  it('tolerates all taints, and has no node selector and affinity, on request', () => {
    const { spec } = changedPod(pod, { ...unchanged, toleratesAll: true, ignoresNodeSelector: true }) as { readonly spec?: object };
    expect(spec).toMatchObject({ tolerations: [{ operator: 'Exists' }] });
    expect(spec).not.toHaveProperty('nodeSelector');
    expect(spec).not.toHaveProperty('affinity');
  });
});

describe('sortedVerdicts', () => {
  it('returns feasible nodes by score, then rejected nodes by plugin and name', () => {
    const nodes = [
      { node: 'd', rejectedBy: 'TaintToleration' },
      { node: 'a', score: 1 },
      { node: 'c', rejectedBy: 'NodeResourcesFit' },
      { node: 'b', score: 2 },
      { node: 'a2', rejectedBy: 'NodeResourcesFit' },
    ];
    expect(sortedVerdicts(nodes).map(({ node }) => node)).toEqual(['b', 'a', 'a2', 'c', 'd']);
  });
});

describe('scoresText', () => {
  it('lists the scores of plugins, the highest first', () => {
    expect(scoresText({ ImageLocality: 1.2, NodeAffinity: 30 })).toBe('NodeAffinity 30, ImageLocality 1');
  });
});
