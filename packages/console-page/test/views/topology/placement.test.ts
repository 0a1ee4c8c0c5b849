import { describe, expect, it } from 'vitest';
import type { Pod } from '../../../src/views/object/workload-kinds.ts';
import type { Node } from '../../../src/views/overview/nodes.ts';
import { topologyOf } from '../../../src/views/topology/placement.ts';

const node = (name: string, zone?: string): Node => ({
  metadata: { name, uid: name, resourceVersion: '1', ...(zone !== undefined && { labels: { 'topology.kubernetes.io/zone': zone } }) },
  status: { allocatable: { cpu: '2', memory: '1Gi' } },
});
const pod = (name: string, nodeName: string | undefined, phase = 'Running'): Pod => ({
  metadata: { name, uid: name, resourceVersion: '1', namespace: 'default' },
  spec: {
    ...(nodeName !== undefined && { nodeName }),
    containers: [{ name: 'a', resources: { requests: { cpu: '500m', memory: '64Mi' } } }, { name: 'b' }],
  },
  status: { phase },
});

describe('topologyOf', () => {
  it('returns zones and nodes by name, with the pods of each node', () => {
    const { zones } = topologyOf([node('n2', 'b'), node('n1', 'b'), node('n3', 'a'), node('n4')], [pod('y', 'n1'), pod('x', 'n1')]);
    expect(zones.map(({ name, nodes }) => [name, nodes.map((each) => each.node.metadata.name)])).toEqual([
      ['', ['n4']],
      ['a', ['n3']],
      ['b', ['n1', 'n2']],
    ]);
    expect(zones[2]?.nodes[0]?.pods.map(({ metadata }) => metadata.name)).toEqual(['x', 'y']);
  });
  it('sums the requests of pods that are not terminal', () => {
    const { zones } = topologyOf([node('n1')], [pod('x', 'n1'), pod('y', 'n1'), pod('done', 'n1', 'Succeeded')]);
    expect(zones[0]?.nodes[0]).toMatchObject({
      requested: { cpu: 1, memory: 128 * 2 ** 20 },
      allocatable: { cpu: 2, memory: 2 ** 30 },
    });
  });
  it('returns pods without a node separately', () => {
    expect(topologyOf([node('n1')], [pod('p', undefined, 'Pending')]).pending.map(({ metadata }) => metadata.name)).toEqual(['p']);
  });
});
