import { nodes, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

type Requests = Readonly<Record<string, string>>;
interface PodOptions {
  readonly node?: string;
  readonly generation?: number;
  readonly init?: Requests;
}

const pod = (requests: Requests, { node: nodeName = 'linux', generation = 2, init }: PodOptions = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', generation },
  spec: {
    ...(nodeName !== '' && { nodeName }),
    containers: [{ name: 'c', resources: { requests } }],
    ...(init && { initContainers: [{ name: 'i', resources: { requests: init } }] }),
  },
});
const resize = (next: Pod) => admissionRequest('UPDATE', pods, next, { old: pod({ cpu: '1' }, { generation: 1 }), subresource: 'resize' });
const open = () =>
  openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        nodes,
        {
          metadata: { name: 'linux', labels: { 'kubernetes.io/os': 'linux' } },
          status: { allocatable: { cpu: '3500m', memory: '4Gi' } },
        },
        { metadata: { name: 'unlabeled' }, status: { allocatable: { cpu: '1', memory: '1Gi' } } },
        {
          metadata: { name: 'other', labels: { 'kubernetes.io/os': 'windows' } },
          status: { allocatable: { cpu: '8', memory: '8Gi' } },
        },
      ),
  });
const short = "node didn't have enough allocatable resources:";

admissionContract('admission-pod-resize-validator', async () => ({
  ...(await open()),
  cases: [
    { title: 'requests that the node has', request: resize(pod({ cpu: '3500m', memory: '4Gi' })), expected: 'allowed' },
    {
      title: 'too much CPU',
      request: resize(pod({ cpu: '10' })),
      expected: 'denied',
      message: `${short} cpu, requested: 10000, allocatable: 3500`,
    },
    {
      title: 'too much of both, in an init container',
      request: resize(pod({ cpu: '1' }, { init: { cpu: '4', memory: '1Pi' } })),
      expected: 'denied',
      message: `${short} cpu, requested: 4000, allocatable: 3500; memory, requested: 1125899906842624, allocatable: 4294967296`,
    },
    {
      title: 'a node without the label of its operating system',
      request: resize(pod({ cpu: '2' }, { node: 'unlabeled' })),
      expected: 'denied',
      message: `${short} cpu, requested: 2000, allocatable: 1000`,
    },
    {
      title: 'a node that does not run Linux',
      request: resize(pod({ cpu: '2' }, { node: 'other' })),
      expected: 'denied',
      message: 'pod resize is only supported on linux nodes, node "other" is "windows"',
    },
    {
      title: 'an unknown node',
      request: resize(pod({ cpu: '2' }, { node: 'gone' })),
      expected: 'denied',
      message: 'node "gone" not found',
    },
    { title: 'a pod without a node', request: resize(pod({ cpu: '10' }, { node: '' })), expected: 'allowed' },
    { title: 'an unchanged spec', request: resize(pod({ cpu: '10' }, { generation: 1 })), expected: 'allowed' },
    {
      title: 'another subresource',
      request: admissionRequest('UPDATE', pods, pod({ cpu: '10' }), { subresource: 'status' }),
      expected: 'ignored',
    },
  ],
}));

it.each([
  ['NodeCapacity', pod({ memory: '5Gi' })],
  ['UnsupportedPlatform', pod({ memory: '5Gi' }, { node: 'other' })],
])('rejects with the cause %s, which autoscalers read', async (reason, next) => {
  const { plugin: created, dispose } = await open();
  const decision = await created.validate?.(resize(next));
  expect(decision).toMatchObject({
    allowed: false,
    status: {
      code: 403,
      reason: 'Forbidden',
      message: expect.stringMatching(/^pods "p" is forbidden: (node|pod) /) as string,
      details: { name: 'p', kind: 'pods', causes: [{ reason }] },
    },
  });
  await dispose();
});
