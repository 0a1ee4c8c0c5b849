import { deviceClasses, pods, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import type { DeviceClass, ResourceSlice } from '@oarlock/api/types/resource-v1';
import { buildExtendedResourceClaim } from '@oarlock/scheduler/plugins/dynamic-resources/extended-resources';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
});
afterEach(() => w.stop());

const driver = 'gpu.example.com';
const resource = 'example.com/gpu';
const deviceClass = (name: string, extendedResourceName?: string): DeviceClass => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'DeviceClass',
  metadata: { name },
  spec: {
    selectors: [{ cel: { expression: `device.driver == "${driver}"` } }],
    ...(extendedResourceName !== undefined && { extendedResourceName }),
  },
});
const slice = (name: string, count: number): ResourceSlice => ({
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceSlice',
  metadata: { name },
  spec: {
    driver,
    nodeName: name,
    pool: { name, generation: 1, resourceSliceCount: 1 },
    devices: Array.from({ length: count }, (_, index) => ({ name: `g${index}` })),
  },
});
const container = (amount: string, name = 'c', more: Partial<Container> = {}): Container => ({
  name,
  image: 'a:1',
  resources: { requests: { cpu: '10m', [resource]: amount }, limits: { [resource]: amount } },
  ...more,
});
const asking = (name: string, amount = '1') => pod(name, { containers: [container(amount)] });
const claims = async () => (await w.api.client().list(resourceClaims, { namespace: 'd' })).items;

describe('extended resources backed by a DeviceClass', () => {
  it('are allocated through a claim that the pod owns and names', async () => {
    w.seedNodes(node('a'), node('b'));
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    w.api.seed(resourceSlices, slice('b', 2));
    await w.start();
    await w.submit(asking('p', '2'), asking('q'));
    expect(w.placeOf('p')).toBe('b');
    const [claim] = await claims();
    const { metadata, status } = w.podOf('p') ?? {};
    expect(claim).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^p-extended-resources-/),
        annotations: { 'resource.kubernetes.io/extended-resource-claim': 'true' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: metadata?.uid, controller: true }],
      },
      spec: {
        devices: {
          requests: [{ name: 'container-0-request-1', exactly: { deviceClassName: 'gpu', allocationMode: 'ExactCount', count: 2 } }],
        },
      },
      status: { reservedFor: [{ name: 'p' }], allocation: { devices: { results: [{ device: 'g0' }, { device: 'g1' }] } } },
    });
    expect(status?.extendedResourceClaimStatus).toEqual({
      resourceClaimName: claim?.metadata?.name,
      requestMappings: [{ containerName: 'c', resourceName: resource, requestName: 'container-0-request-1' }],
    });
    // each device once, and no pod more while none is free
    expect(w.whyNot('q')).toContain('2 cannot allocate all claims');
    expect(await claims()).toHaveLength(1);
  });

  it('are available under the implicit class name, and come from device plugins where the node has them', async () => {
    const implicit = 'deviceclass.resource.kubernetes.io/gpu';
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    const plugin = node('plugin');
    w.seedNodes({ ...plugin, status: { ...plugin.status, allocatable: { ...plugin.status?.allocatable, [resource]: '1' } } });
    await w.start();
    await w.submit(asking('by-plugin'), asking('too-much'));
    expect(w.placeOf('by-plugin')).toBe('plugin');
    expect(w.whyNot('too-much')).toContain(`Insufficient ${resource}`);
    expect(await claims()).toEqual([]);
    await w.api.client().create(resourceSlices, slice('plugin', 1));
    await w.submit(pod('by-class', { containers: [{ name: 'c', resources: { requests: { [implicit]: '1' } } }] }));
    expect(w.placeOf('by-class')).toBe('plugin');
    expect(await claims()).toHaveLength(1);
  });

  it('are insufficient without a DeviceClass, and become available when one is created', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', 1));
    await w.start();
    await w.submit(asking('p'));
    expect(w.whyNot('p')).toContain(`Insufficient ${resource}`);
    await w.api.client().create(deviceClasses, deviceClass('gpu', resource));
    await w.clock.advance(1100);
    expect(w.placeOf('p')).toBe('a');
  });

  it('are released after a failed binding', async () => {
    w.seedNodes(node('a'));
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    w.api.seed(resourceSlices, slice('a', 1));
    w.api.failNext({ verb: 'create', resource: pods, subresource: 'binding' }, failure('InternalError', 'no'));
    await w.start();
    await w.submit(asking('p'));
    await w.clock.advance(5000);
    expect(w.placeOf('p')).toBe('a');
    const left = await claims();
    expect(left.map(({ metadata }) => metadata?.name)).toEqual([w.podOf('p')?.status?.extendedResourceClaimStatus?.resourceClaimName]);
  });

  it('left by an attempt before a crash are deleted first', async () => {
    w.seedNodes(node('a'));
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    w.api.seed(resourceSlices, slice('a', 1));
    w.api.seed(pods, { ...asking('p'), metadata: { namespace: 'd', name: 'p', uid: 'u' } });
    const { claim } = buildExtendedResourceClaim(
      { ...asking('p'), metadata: { namespace: 'd', name: 'p', uid: 'u' } },
      [resource],
      () => 'gpu',
    );
    w.api.seed(resourceClaims, { ...claim, metadata: { ...claim.metadata, name: 'stale' } });
    await w.start();
    await w.clock.advance(5000);
    expect(w.placeOf('p')).toBe('a');
    expect((await claims()).map(({ metadata }) => metadata?.name)).not.toContain('stale');
  });
});

describe('the claim for extended resources', () => {
  const shape = (spec: Pod['spec']) => {
    const { claim, mappings } = buildExtendedResourceClaim(pod('p', spec), [resource], () => 'gpu');
    return {
      requests: claim.spec.devices?.requests?.map(({ name, exactly }) => `${name}: ${exactly?.count}`),
      mappings: mappings.map(({ containerName, requestName }) => `${containerName} ${requestName}`),
    };
  };
  it('requests once what sequential containers share', () => {
    const spec = {
      initContainers: [container('3', 'first'), container('1', 'sidecar', { restartPolicy: 'Always' }), container('4', 'second')],
      containers: [container('2', 'main')],
    };
    expect(shape(spec)).toEqual({
      requests: ['container-1-request-1: 1', 'container-2-request-1: 2', 'container-3-request-1: 2'],
      mappings: [
        'sidecar container-1-request-1',
        'main container-3-request-1',
        'first container-1-request-1',
        'first container-3-request-1',
        'second container-3-request-1',
        'second container-2-request-1',
      ],
    });
  });
  it('requests the maximum of the init containers', () => {
    expect(shape({ initContainers: [container('1', 'a'), container('2', 'b')], containers: [{ name: 'c' }] })).toEqual({
      requests: ['container-1-request-1: 2'],
      mappings: ['a container-1-request-1', 'b container-1-request-1'],
    });
  });
});

describe('scoring of device-backed extended resources', () => {
  const scored = async (type: 'MostAllocated' | 'LeastAllocated', ...names: string[]) => {
    const scoringStrategy = { type, resources: [{ name: resource, weight: 1 }] };
    w = testScheduler({ profiles: [{ pluginConfig: [{ name: 'NodeResourcesFit', args: { scoringStrategy } }] }] });
    w.seedNodes(node('few'), node('many'), node('none'));
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    w.api.seed(resourceSlices, slice('few', 3), slice('many', 4));
    await w.start();
    for (const name of names) await w.submit(asking(name));
    return names.map((name) => w.placeOf(name));
  };

  it('MostAllocated: prefers nodes with more allocated devices', async () => {
    expect(await scored('MostAllocated', 'a', 'b', 'c', 'd')).toEqual(['few', 'few', 'few', 'many']);
  });

  it('LeastAllocated: prefers nodes with fewer allocated devices', async () => {
    expect(await scored('LeastAllocated', 'a', 'b', 'c')).toEqual(['many', 'few', 'many']);
  });

  it('balanced allocation: includes devices beside CPU', async () => {
    const resources = [{ name: 'cpu' }, { name: resource }];
    w = testScheduler({ profiles: [{ pluginConfig: [{ name: 'NodeResourcesBalancedAllocation', args: { resources } }] }] });
    w.seedNodes(node('few'), node('many'));
    w.api.seed(deviceClasses, deviceClass('gpu', resource));
    w.api.seed(resourceSlices, slice('few', 2), slice('many', 8));
    await w.start();
    const scores = () => {
      const half = { requests: { cpu: '2', [resource]: '1' }, limits: { [resource]: '1' } };
      const found = w.explain(pod('new', { containers: [{ name: 'c', resources: half }] }));
      return Object.fromEntries(found.map(({ node: name, scores: own }) => [name, own?.['NodeResourcesBalancedAllocation']]));
    };
    // from nothing to half of the CPU, and 1 of 2 and 1 of 8 devices
    expect(scores()).toEqual({ few: 75, many: 65 });
    await w.submit(pod('p', { ...asking('p', '3').spec, nodeSelector: { 'kubernetes.io/hostname': 'many' } }));
    // many: from 0 and 3 of 8 devices to half of both
    expect(scores()).toEqual({ few: 75, many: 84 });
  });
});
