import { nodes, pods } from '@oarlock/api/resources';
import type { Pod, PodSpec, ResourceRequirements } from '@oarlock/api/types/core-v1';
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
        {
          metadata: { name: 'new' },
          status: { allocatable: { cpu: '8', memory: '8Gi' }, declaredFeatures: ['InPlacePodVerticalScalingInitContainers'] },
        },
        { metadata: { name: 'unlabeled' }, status: { allocatable: { cpu: '1', memory: '1Gi' } } },
        {
          metadata: { name: 'other', labels: { 'kubernetes.io/os': 'windows' } },
          status: { allocatable: { cpu: '8', memory: '8Gi' } },
        },
      ),
  });
/** A resize between two specs of a pod on the node, which declares no features unless it is `new`. */
const between = (old: Partial<PodSpec>, now: Partial<PodSpec>, node = 'linux') => {
  const changed = (spec: Partial<PodSpec>, generation: number): Pod => {
    const before = pod({}, { node, generation });
    return { ...before, spec: { ...before.spec, containers: [{ name: 'c' }], ...spec } };
  };
  return admissionRequest('UPDATE', pods, changed(now, 2), { old: changed(old, 1), subresource: 'resize' });
};
const cpu = (amount: string): ResourceRequirements => ({ requests: { cpu: amount } });
const guaranteed = (amount: string): Partial<PodSpec> => {
  const amounts = { cpu: amount, memory: '1Gi' };
  return { containers: [{ name: 'c', resources: { requests: amounts, limits: amounts } }] };
};
const init = (amount: string, restartPolicy?: string): Partial<PodSpec> => ({
  initContainers: [{ name: 'i', resources: cpu(amount), ...(restartPolicy !== undefined && { restartPolicy }) }],
});
const undeclared = (features: string) => ({
  expected: 'denied' as const,
  message: `pod update requires features ${features} which are not available on node "linux"`,
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
    {
      title: 'an init container on a node that does not declare the feature',
      request: between(init('1'), init('2')),
      ...undeclared('InPlacePodVerticalScalingInitContainers'),
    },
    { title: 'an init container on a node that declares the feature', request: between(init('1'), init('2'), 'new'), expected: 'allowed' },
    { title: 'a sidecar', request: between(init('1', 'Always'), init('2', 'Always')), expected: 'allowed' },
    { title: 'CPU of a guaranteed pod', request: between(guaranteed('1'), guaranteed('2')), ...undeclared('GuaranteedQoSPodCPUResize') },
    { title: 'the same CPU in another notation', request: between(guaranteed('1'), guaranteed('1000m')), expected: 'allowed' },
    {
      title: 'pod-level resources and an init container',
      request: between({ resources: cpu('1'), ...init('1') }, { resources: cpu('2'), ...init('2') }),
      ...undeclared('InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers'),
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
