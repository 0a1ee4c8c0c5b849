import { isBestEffort, quotaUsage, resourcesOfQuotaName } from '@oarlock/api/quota/quota';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import { describe, expect, it } from 'vitest';

const text = (usage: Iterable<readonly [string, unknown]>) =>
  Object.fromEntries([...usage].map(([name, amount]) => [name, String(amount)]));
const pod = (requests: Record<string, string>, status: Pod['status'] = {}): Pod => ({
  spec: { containers: [{ name: 'c', image: 'a', resources: { requests } }] },
  status,
});

describe('quotaUsage', () => {
  it('counts devices by class: the largest alternative of a request, and 32 for all devices', () => {
    const claim: ResourceClaim = {
      spec: {
        devices: {
          requests: [
            { name: 'one', exactly: { deviceClassName: 'gpu', allocationMode: 'ExactCount', count: 2 } },
            { name: 'all', exactly: { deviceClassName: 'nic', allocationMode: 'All' } },
            {
              name: 'any',
              firstAvailable: [
                { name: 'a', deviceClassName: 'gpu', allocationMode: 'ExactCount', count: 1 },
                { name: 'b', deviceClassName: 'gpu', allocationMode: 'ExactCount', count: 3 },
                { name: 'c', deviceClassName: 'fpga', allocationMode: 'ExactCount', count: 1 },
              ],
            },
          ],
        },
      },
    };
    expect(text(quotaUsage('resourceclaims.resource.k8s.io', claim, { now: 0 }))).toEqual({
      'count/resourceclaims.resource.k8s.io': '1',
      'gpu.deviceclass.resource.k8s.io/devices': '5',
      'nic.deviceclass.resource.k8s.io/devices': '32',
      'fpga.deviceclass.resource.k8s.io/devices': '1',
      'requests.deviceclass.resource.kubernetes.io/gpu': '5',
      'requests.deviceclass.resource.kubernetes.io/nic': '32',
      'requests.deviceclass.resource.kubernetes.io/fpga': '1',
    });
    expect(resourcesOfQuotaName('gpu.deviceclass.resource.k8s.io/devices')).toEqual(['resourceclaims.resource.k8s.io']);
    expect(resourcesOfQuotaName('requests.example.com/gpu')).toEqual(['pods', 'resourceclaims.resource.k8s.io']);
  });

  it('counts storage in whole bytes', () => {
    const spec = { resources: { requests: { storage: '1500m' } } };
    const claim: PersistentVolumeClaim = { spec, status: { allocatedResources: { storage: '2500m' } } };
    const requested: PersistentVolumeClaim = { spec };
    expect(text(quotaUsage('persistentvolumeclaims', claim, { now: 0 }))).toMatchObject({ 'requests.storage': '3' });
    expect(text(quotaUsage('persistentvolumeclaims', requested, { now: 0 }))).toMatchObject({ 'requests.storage': '2' });
  });

  it('counts the allocated resources of a pod that is being resized', () => {
    const containerStatuses = [
      {
        name: 'c',
        image: 'a',
        imageID: '',
        ready: true,
        restartCount: 0,
        allocatedResources: { cpu: '2' },
        resources: { requests: { cpu: '2' } },
      },
    ];
    expect(text(quotaUsage('pods', pod({ cpu: '1' }, { containerStatuses }), { now: 0 }))).toMatchObject({ cpu: '2', 'requests.cpu': '2' });
  });
});

describe('isBestEffort', () => {
  it.each([
    ['no requests', pod({}), true],
    ['requests of zero', pod({ cpu: '0', memory: '0' }), true],
    ['requests of other resources', pod({ 'ephemeral-storage': '1Gi' }), true],
    ['a request', pod({ cpu: '1m' }), false],
    ['another class in the status', pod({}, { qosClass: 'Burstable' }), false],
  ])('of a pod with %s', (_case, each, expected) => {
    expect(isBestEffort(each)).toBe(expected);
  });
});
