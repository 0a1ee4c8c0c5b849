import type { KubeObject } from '@oarlock/api/object';
import { nodes, pods } from '@oarlock/api/resources';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const zone = 'topology.kubernetes.io/zone';
const region = 'topology.kubernetes.io/region';
const binding = (name: string, labels?: Record<string, string>) =>
  ({ metadata: { namespace: 'd', name: 'p', ...(labels && { labels }) }, target: { kind: 'Node', name } }) as KubeObject;
const bind = (object: KubeObject) => admissionRequest('CREATE', pods, object, { subresource: 'binding' });
const pod = (nodeName?: string) => ({ metadata: { namespace: 'd', name: 'p' }, spec: { containers: [], ...(nodeName && { nodeName }) } });

admissionContract('admission-pod-topology-labels', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        nodes,
        { metadata: { name: 'both', labels: { [zone]: 'z1', [region]: 'r1', 'kubernetes.io/hostname': 'both' } } },
        { metadata: { name: 'one', labels: { [zone]: 'z2' } } },
        { metadata: { name: 'none' } },
      ),
  })),
  cases: [
    {
      title: 'a binding to a node in a zone and a region',
      request: bind(binding('both', { mine: 'x', [zone]: 'forged' })),
      expected: 'allowed',
      check: (object) => expect(object?.metadata?.labels).toEqual({ mine: 'x', [zone]: 'z1', [region]: 'r1' }),
    },
    {
      title: 'a binding to a node in a zone',
      request: bind(binding('one')),
      expected: 'allowed',
      check: (object) => expect(object?.metadata?.labels).toEqual({ [zone]: 'z2' }),
    },
    { title: 'a binding to a node without topology labels', request: bind(binding('none')), expected: 'allowed' },
    { title: 'a binding to an unknown node', request: bind(binding('gone')), expected: 'allowed' },
    {
      title: 'a pod that is created on a node',
      request: admissionRequest('CREATE', pods, pod('both')),
      expected: 'allowed',
      check: (object) => expect(object?.metadata?.labels).toEqual({ [zone]: 'z1', [region]: 'r1' }),
    },
    { title: 'a pod without a node', request: admissionRequest('CREATE', pods, pod()), expected: 'allowed' },
    { title: 'an update', request: admissionRequest('UPDATE', pods, pod('both')), expected: 'ignored' },
  ],
}));

it('admits all without labels if the feature gate PodTopologyLabelsAdmission is off', async () => {
  const opened = await openAdmission(plugin, { facts: { featureGates: { PodTopologyLabelsAdmission: false } } });
  expect(opened.plugin.matches).toEqual([]);
  await opened.dispose();
});
