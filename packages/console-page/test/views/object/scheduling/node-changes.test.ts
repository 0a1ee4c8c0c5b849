import { expect, it } from 'vitest';
import { nodeChangesOf, parseTaints, unchangedNode } from '../../../../src/views/object/scheduling/node-changes.ts';

const node = {
  metadata: { name: 'a', uid: 'u', resourceVersion: '1', labels: { 'kubernetes.io/hostname': 'a', zone: 'one', plain: '' } },
  spec: {
    podCIDR: '10.0.0.0/24',
    unschedulable: true,
    taints: [
      { key: 'k', value: 'v', effect: 'NoSchedule' },
      { key: 'plain', effect: 'NoExecute' },
    ],
  },
  status: { allocatable: { cpu: '4', memory: '8Gi', pods: '110' }, nodeInfo: {} },
};
const change = unchangedNode(node);

it('a change shows the fields of the node in the forms of kubectl, and leaves it as it is', () => {
  expect(change).toMatchObject({
    mode: 'edit',
    taints: 'k=v:NoSchedule, plain:NoExecute',
    labels: 'kubernetes.io/hostname=a, zone=one, plain',
    cpu: '4',
    memory: '8Gi',
    unschedulable: true,
  });
  expect(nodeChangesOf([change])).toEqual({ nodes: [node] });
});

it('a node gets other fields, and keeps those that are not changed', () => {
  const other = { ...change, taints: '', labels: 'zone=two', cpu: '8', memory: '', unschedulable: false };
  expect(nodeChangesOf([other])).toEqual({
    nodes: [
      {
        ...node,
        metadata: { ...node.metadata, labels: { zone: 'two' } },
        spec: { podCIDR: '10.0.0.0/24', taints: [] },
        status: { ...node.status, allocatable: { cpu: '8', memory: '8Gi', pods: '110' } },
      },
    ],
  });
});

it('a node is removed, or gets a copy with a name of its own', () => {
  expect(nodeChangesOf([{ ...change, mode: 'remove' }])).toEqual({ removedNodes: ['a'] });
  expect(nodeChangesOf([{ ...change, mode: 'copy' }]).nodes?.[0]?.metadata).toMatchObject({
    name: 'a-copy',
    labels: { 'kubernetes.io/hostname': 'a-copy', zone: 'one' },
  });
});

it('taints without a key or a known effect are rejected', () => {
  expect(parseTaints(' a=b:NoSchedule,c:PreferNoSchedule ')).toEqual([
    { key: 'a', value: 'b', effect: 'NoSchedule' },
    { key: 'c', effect: 'PreferNoSchedule' },
  ]);
  for (const text of ['a=b', ':NoSchedule', 'a:Never']) expect(() => parseTaints(text), text).toThrow('is no taint');
});
