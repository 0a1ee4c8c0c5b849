import { pods } from '@oarlock/api/resources';
import type { ContainerStatus, Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { newPodInfo } from '@oarlock/scheduler/pod-info/pod-info';
import { isSchedulingEquivalent } from '@oarlock/scheduler/pod-info/pod-changes';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

const held = (cpu: string, allocated = cpu): ContainerStatus => ({
  name: 'c',
  image: 'a:1',
  imageID: '',
  ready: true,
  restartCount: 0,
  resources: { requests: { cpu } },
  allocatedResources: { cpu: allocated },
});
const asking = (name: string, cpu: string, status?: PodStatus, nodeName?: string): Pod => ({
  ...pod(name, {
    containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
    ...(nodeName !== undefined && { nodeName }),
  }),
  ...(status && { status }),
});
/** A pod with pod-level requests, whose container requests 1 CPU. */
const podLevel = (cpu: string, status: PodStatus = {}): Pod => ({
  ...pod('p', { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '1' } } }], resources: { requests: { cpu } } }),
  status: { containerStatuses: [held('1')], ...status },
});
const infeasible = [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible' }];

describe('requests of resized pods', () => {
  it.each<[string, Pod, number]>([
    ['spec requests before a status exists', asking('p', '2'), 2000],
    ['spec requests if they are allocated', asking('p', '2', { containerStatuses: [held('2000m')] }), 2000],
    ['spec requests while the pod grows', asking('p', '3', { containerStatuses: [held('2')] }), 3000],
    ['actual resources until the pod has shrunk', asking('p', '1', { containerStatuses: [held('2')] }), 2000],
    ['allocated resources', asking('p', '1', { containerStatuses: [held('1', '2')] }), 2000],
    ['actual resources if the resize is infeasible', asking('p', '64', { containerStatuses: [held('2')], conditions: infeasible }), 2000],
    ['pod-level requests instead of container requests', podLevel('1500m'), 1500],
    ['pod-level actual resources until the pod has shrunk', podLevel('1', { resources: { requests: { cpu: '3' } } }), 3000],
    ['pod-level spec requests while the pod grows', podLevel('4', { allocatedResources: { cpu: '3' } }), 4000],
    [
      'pod-level allocated resources if the resize is infeasible',
      podLevel('9', { allocatedResources: { cpu: '3' }, conditions: infeasible }),
      3000,
    ],
  ])('count %s', (_what, status, milliCpu) => {
    expect(newPodInfo(status).requests.milliCpu).toBe(milliCpu);
  });

  it('change when the effective requests change, and only then', () => {
    const shrinking = asking('p', '1', { containerStatuses: [held('2')] });
    const shrunk = { ...shrinking, status: { containerStatuses: [held('1')] } };
    const noted = { ...shrinking, status: { ...shrinking.status, message: 'x' } };
    expect([isSchedulingEquivalent(shrinking, shrunk), isSchedulingEquivalent(shrinking, noted)]).toEqual([false, true]);
  });

  let w: ReturnType<typeof testScheduler>;
  beforeEach(() => {
    w = testScheduler();
  });
  afterEach(() => w.stop());

  it('free resources when the kubelet has shrunk the pod', async () => {
    w.seedNodes(node('n', {}, { cpu: '2' }));
    w.api.seed(pods, asking('big', '1', { containerStatuses: [held('2')] }, 'n'));
    await w.start();
    await w.submit(asking('new', '1'));
    expect(w.whyNot('new')).toContain('Insufficient cpu');
    const at = { namespace: 'd', name: 'big' };
    await w.api.client().patch(pods, at, 'merge', { status: { containerStatuses: [held('1')] } }, { subresource: 'status' });
    await w.clock.advance(1100);
    expect(w.placeOf('new')).toBe('n');
  });
});
