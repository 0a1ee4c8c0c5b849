import { pods, resourceClaims, resourceClaimTemplates } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import resourceClaim from '@oarlock/controllers/dynamic-resources/resource-claim/resource-claim-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { setPodTerminated } from '@oarlock/testing/simulated-pods';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

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

describe('ResourceClaimController', () => {
  it('creates claims from templates, deallocates them when their pod is done, and deletes them', async () => {
    const { api, clock } = await runControllers([resourceClaim], {
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
        ownerReferences: [{ kind: 'Pod', name: 'p', controller: true, blockOwnerDeletion: true }],
      },
      spec: { devices: { requests: [{ name: 'one' }] } },
    });
    expect(claim?.metadata?.name).toMatch(/^p-device-/);
    expect(api.object(pods, at('p'))?.metadata?.managedFields).toContainEqual(
      expect.objectContaining({ manager: 'ResourceClaimController', operation: 'Apply', subresource: 'status' }),
    );
    expect(api.object(pods, at('p'))?.status?.resourceClaimStatuses).toEqual([
      { name: 'device', resourceClaimName: claim?.metadata?.name },
    ]);
    reserve(api);
    await clock.settle();
    expect(claims(api)[0]?.status?.reservedFor).toHaveLength(1);
    const now = api.object(pods, at('p'));
    if (now) await setPodTerminated(api, { pod: now, exitCode: 0, at: clock.now() });
    await clock.settle();
    expect(claims(api)).toEqual([]);
  });

  it('shortens the names of the pod and of its claim in the name of the claim', async () => {
    const { api, clock } = await runControllers([resourceClaim], {
      defaults: false,
      seed: (memory) => void memory.seed(resourceClaimTemplates, template),
    });
    const [name, claim] = ['p'.repeat(60), 'c'.repeat(20)];
    const resourceClaims = [{ name: claim, resourceClaimTemplateName: 'gpu' }];
    await api.client().create(pods, { ...pod, metadata: { namespace: 'd', name }, spec: { ...pod.spec, containers: [], resourceClaims } });
    await clock.settle();
    expect(claims(api).map(({ metadata }) => metadata?.generateName)).toEqual([`${'p'.repeat(41)}-${'c'.repeat(13)}`]);
  });

  it('creates a claim when its template appears', async () => {
    const life = await runControllers([resourceClaim], { defaults: false });
    await life.api.client().create(pods, pod);
    await life.clock.settle();
    expect(life.messages('FailedResourceClaimCreation')[0]).toBe('PodResourceClaim device: resource claim template "gpu" not found');
    await life.api.client().create(resourceClaimTemplates, template);
    await life.clock.settle();
    expect(claims(life.api)).toHaveLength(1);
  });

  it('deletes a claim for extended resources with its pod', async () => {
    const { api, clock } = await runControllers([resourceClaim], { defaults: false });
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
    await setPodTerminated(api, { pod: now, exitCode: 0, at: clock.now() });
    await clock.settle();
    expect(claims(api)).toEqual([]);
  });

  it('removes the reservation of a pod that does not exist', async () => {
    const { api, clock } = await runControllers([resourceClaim], {
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

controllerPluginContract(resourceClaim, [
  {
    title: 'creates and deletes the claim of a pod',
    steps: [
      (api) => void api.seed(resourceClaimTemplates, template),
      async (api) => {
        await api.client().create(pods, pod);
      },
    ],
    expectResult: (api) => {
      expect(claims(api)).toHaveLength(1);
      expect(api.object(pods, at('p'))?.status?.resourceClaimStatuses?.[0]?.resourceClaimName).toBe(claims(api)[0]?.metadata?.name);
    },
  },
]);
