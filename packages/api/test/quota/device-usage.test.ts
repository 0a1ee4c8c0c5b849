import { deviceQuotaContext } from '@oarlock/api/quota/device-usage';
import { quotaUsage } from '@oarlock/api/quota/quota';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import { describe, expect, it } from 'vitest';

const classes = [
  { metadata: { name: 'gpu' }, spec: { extendedResourceName: 'example.com/gpu' } },
  { metadata: { name: 'nic' }, spec: {} },
];
const container = (name: string, gpus: string, resource = 'example.com/gpu'): Container => ({
  name,
  image: 'a',
  resources: { requests: { [resource]: gpus } },
});
const claim = (...requests: readonly [deviceClassName: string, count: number][]): ResourceClaim => ({
  metadata: { namespace: 'd', name: 'c' },
  spec: {
    devices: {
      requests: requests.map(([deviceClassName, count], index) => ({
        name: `r${index}`,
        exactly: { deviceClassName, allocationMode: 'ExactCount', count },
      })),
    },
  },
});
const extendedClaim = (...requests: readonly [deviceClassName: string, count: number][]): ResourceClaim => ({
  ...claim(...requests),
  metadata: {
    namespace: 'd',
    name: 'c',
    annotations: { 'resource.kubernetes.io/extended-resource-claim': 'true' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u', controller: true }],
  },
});
const usage = (of: ResourceClaim, pod?: Pod) => {
  const devices = deviceQuotaContext(classes, (namespace, name) => (namespace === 'd' && name === 'p' ? pod : undefined));
  const used = quotaUsage('resourceclaims.resource.k8s.io', of, { now: 0, devices });
  return Object.fromEntries([...used].filter(([name]) => name.startsWith('requests.')).map(([name, amount]) => [name, String(amount)]));
};
const implicit = 'requests.deviceclass.resource.kubernetes.io/';

describe('device usage', () => {
  it('counts devices as the extended resources of their DeviceClass', () => {
    expect(usage(claim(['gpu', 2], ['gpu', 1], ['nic', 4]))).toEqual({
      [`${implicit}gpu`]: '3',
      'requests.example.com/gpu': '3',
      [`${implicit}nic`]: '4',
    });
  });

  it('does not count the extended resources for which the pod of the claim is charged', () => {
    const pod: Pod = { metadata: { uid: 'u' }, spec: { containers: [container('a', '2'), container('b', '1')] } };
    expect(usage(extendedClaim(['gpu', 2], ['gpu', 1]), pod)).toEqual({ [`${implicit}gpu`]: '3' });
    const byClass: Pod = { metadata: { uid: 'u' }, spec: { containers: [container('a', '2', 'deviceclass.resource.kubernetes.io/gpu')] } };
    expect(usage(extendedClaim(['gpu', 2]), byClass)).toEqual({ 'requests.example.com/gpu': '2' });
  });

  it('does not count what init containers need beyond the other containers', () => {
    const pod: Pod = { metadata: { uid: 'u' }, spec: { initContainers: [container('i', '3')], containers: [container('a', '1')] } };
    expect(usage(extendedClaim(['gpu', 2], ['gpu', 1]), pod)).toEqual({ [`${implicit}gpu`]: '3' });
  });

  it.each<[string, Pod | undefined]>([
    ['does not exist', undefined],
    ['has another uid', { metadata: { uid: 'v' }, spec: { containers: [container('a', '2')] } }],
    [
      'uses another claim',
      {
        metadata: { uid: 'u' },
        spec: { containers: [container('a', '2')] },
        status: { extendedResourceClaimStatus: { resourceClaimName: 'other', requestMappings: [] } },
      },
    ],
  ])('counts a claim whose pod %s like any other', (_what, pod) => {
    expect(usage(extendedClaim(['gpu', 2]), pod)).toEqual({ [`${implicit}gpu`]: '2', 'requests.example.com/gpu': '2' });
  });
});
