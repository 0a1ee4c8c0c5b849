import { pods, resourceClaims, resourceClaimTemplates } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import resourceClaim from '@oarlock/controllers/resource-claim/resource-claim-controller';
import { cutEveryWrite } from '@oarlock/testing/controller-cuts';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { endPod } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, live } from './life.ts';

const template = {
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceClaimTemplate',
  metadata: { namespace: 'd', name: 'gpu' },
  spec: { metadata: { labels: { x: 'y' } }, spec: { devices: { requests: [{ name: 'one' }] } } },
};
const pod: Pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'p' },
  spec: { nodeName: 'n', containers: [{ name: 'c', image: 'a' }], resourceClaims: [{ name: 'device', resourceClaimTemplateName: 'gpu' }] },
};
const claims = (api: MemoryApi) => api.objects(resourceClaims, 'd');
const reserve = (api: MemoryApi) => {
  const [claim] = claims(api);
  const uid = api.object(pods, at('p'))?.metadata?.uid ?? '';
  if (claim !== undefined)
    api.seed(resourceClaims, {
      ...claim,
      metadata: { ...claim.metadata, finalizers: ['resource.kubernetes.io/delete-protection'] },
      status: { allocation: {}, reservedFor: [{ resource: 'pods', name: 'p', uid }] },
    });
};

describe('resource claims', () => {
  it('are made from the template of a pod, freed when it is done, and removed then', async () => {
    const { api, clock } = await live([resourceClaim], {
      defaults: false,
      seed: (memory) => void memory.seed(resourceClaimTemplates, template),
    });
    await api.client().create(pods, pod);
    await clock.settle();
    const [claim] = claims(api);
    expect(claim).toMatchObject({
      metadata: {
        labels: { x: 'y' },
        annotations: { 'resource.kubernetes.io/pod-claim-name': 'device' },
        ownerReferences: [{ kind: 'Pod', name: 'p', controller: true }],
      },
      spec: { devices: { requests: [{ name: 'one' }] } },
    });
    expect(claim?.metadata?.name).toMatch(/^p-device-/);
    expect(api.object(pods, at('p'))?.status?.resourceClaimStatuses).toEqual([
      { name: 'device', resourceClaimName: claim?.metadata?.name },
    ]);
    reserve(api);
    await clock.settle();
    expect(claims(api)[0]?.status?.reservedFor).toHaveLength(1);
    const now = api.object(pods, at('p'));
    if (now) await endPod(api, now, 0, clock.now());
    await clock.settle();
    expect(claims(api)).toEqual([]);
  });

  it('wait for their template', async () => {
    const life = await live([resourceClaim], { defaults: false });
    await life.api.client().create(pods, pod);
    await life.clock.settle();
    expect(life.messages('FailedResourceClaimCreation')[0]).toBe('PodResourceClaim device: resource claim template "gpu" not found');
    await life.api.client().create(resourceClaimTemplates, template);
    await life.clock.settle();
    expect(claims(life.api)).toHaveLength(1);
  });

  it('for extended resources go with their pod, which names none in its spec', async () => {
    const { api, clock } = await live([resourceClaim], { defaults: false });
    const { resourceClaims: _none, ...spec } = pod.spec ?? { containers: [] };
    const { metadata } = await api.client().create(pods, { ...pod, spec });
    const uid = metadata?.uid ?? '';
    api.seed(resourceClaims, {
      apiVersion: 'resource.k8s.io/v1',
      kind: 'ResourceClaim',
      metadata: { namespace: 'd', name: 'x', ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid, controller: true }] },
      spec: {},
      status: { allocation: {}, reservedFor: [{ resource: 'pods', name: 'p', uid }] },
    });
    await clock.settle();
    const status = { extendedResourceClaimStatus: { resourceClaimName: 'x', requestMappings: [] } };
    const now = await api.client().patch(pods, at('p'), 'merge', { status }, { subresource: 'status' });
    expect(claims(api)).toHaveLength(1);
    await endPod(api, now, 0, clock.now());
    await clock.settle();
    expect(claims(api)).toEqual([]);
  });

  it('lose the reservation of a pod that is not there', async () => {
    const { api, clock } = await live([resourceClaim], {
      defaults: false,
      seed: (memory) =>
        void memory.seed(resourceClaims, {
          apiVersion: 'resource.k8s.io/v1',
          kind: 'ResourceClaim',
          metadata: { namespace: 'd', name: 'shared', finalizers: ['resource.kubernetes.io/delete-protection'] },
          spec: {},
          status: { allocation: {}, reservedFor: [{ resource: 'pods', name: 'gone', uid: 'u' }] },
        }),
    });
    await clock.settle();
    expect(api.object(resourceClaims, at('shared'))?.status).toEqual({});
    expect(api.object(resourceClaims, at('shared'))?.metadata?.finalizers ?? []).toEqual([]);
  });
});

cutEveryWrite(resourceClaim, [
  {
    title: 'a claim for a pod',
    steps: [
      (api) => void api.seed(resourceClaimTemplates, template),
      async (api) => {
        await api.client().create(pods, pod);
      },
    ],
    holds: (api) => {
      expect(claims(api)).toHaveLength(1);
      expect(api.object(pods, at('p'))?.status?.resourceClaimStatuses?.[0]?.resourceClaimName).toBe(claims(api)[0]?.metadata?.name);
    },
  },
]);
