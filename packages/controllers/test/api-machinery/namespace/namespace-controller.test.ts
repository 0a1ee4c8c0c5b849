import { apiServices, configMaps, endpoints, endpointSlices, namespaces, pods, serviceAccounts, services } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import endpointSlice from '@oarlock/controllers/network/endpoint-slice/endpoint-slice-controller';
import mirroring from '@oarlock/controllers/network/endpoint-slice-mirroring/endpoint-slice-mirroring-controller';
import rootCa from '@oarlock/controllers/auth/root-ca/root-ca-controller';
import account from '@oarlock/controllers/auth/service-account/service-account-controller';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import namespaceController from '@oarlock/controllers/api-machinery/namespace/namespace-controller';
import { describe, expect, it } from 'vitest';
import { runControllers } from '../../support/running-controllers.ts';

const metadata = { namespace: 'd', name: 'web' };
const service = (api: MemoryApi, spec: object) =>
  api.seed(services, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { clusterIP: '10.96.0.7', ipFamilies: ['IPv4'], ports: [{ port: 80 }], ...spec },
  });
const rows: readonly [string, Plugin, Resource, (api: MemoryApi) => void][] = [
  ['endpointslice', endpointSlice, endpointSlices, (api) => void service(api, { selector: { app: 'web' } })],
  [
    'endpointslicemirroring',
    mirroring,
    endpointSlices,
    (api) => {
      service(api, {});
      api.seed(endpoints, {
        apiVersion: 'v1',
        kind: 'Endpoints',
        metadata,
        subsets: [{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }] }],
      });
    },
  ],
  ['root-ca-cert-publisher', rootCa, configMaps, () => {}],
  ['serviceaccount', account, serviceAccounts, () => {}],
];

it.each(rows)(
  '%s does not retry a request that is rejected because the namespace is terminating',
  async (_loop, plugin, createdResource, seed) => {
    const causes = [{ reason: 'NamespaceTerminating', message: 'namespace d is being terminated', field: 'metadata.namespace' }];
    const { api, clock } = await runControllers([plugin], {
      defaults: false,
      seed: (memory) => {
        // the namespace in the cache of the controller is stale
        memory.failNext(
          { verb: 'create', resource: createdResource },
          failure('Forbidden', 'unable to create new content', { causes }),
          1000,
        );
        memory.seed(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd' } });
        seed(memory);
      },
    });
    await clock.advance(600_000);
    expect(api.requests.filter(({ verb, resource }) => verb === 'create' && resource === createdResource)).toHaveLength(1);
  },
);

it("namespace-controller reports remaining objects by resource and group in upstream's words", async () => {
  const held = (name: string) => ({ metadata: { namespace: 'd', name, finalizers: ['example.com/hold'] } });
  const { api, clock } = await runControllers([namespaceController], {
    defaults: false,
    seed: (memory) => {
      memory.seed(configMaps, held('a'), held('b'));
      memory.seed(endpointSlices, { ...held('s'), addressType: 'IPv4' });
      memory.seed(namespaces, { metadata: { name: 'd' }, spec: { finalizers: ['kubernetes'] } });
    },
  });
  await api.client().delete(namespaces, { name: 'd' });
  await clock.settle();
  const condition = api.object(namespaces, { name: 'd' })?.status?.conditions?.find(({ type }) => type === 'NamespaceContentRemaining');
  expect(condition?.message).toBe(
    'Some resources are remaining: configmaps. has 2 resource instances, endpointslices.discovery.k8s.io has 1 resource instances',
  );
});

describe('namespace-controller', () => {
  const contentFailure = (api: MemoryApi) =>
    api.object(namespaces, { name: 'd' })?.status?.conditions?.find(({ type }) => type === 'NamespaceDeletionContentFailure');
  const terminating = async (seed: (memory: MemoryApi) => void) => {
    const life = await runControllers([namespaceController], {
      defaults: false,
      seed: (memory) => {
        seed(memory);
        memory.seed(namespaces, { metadata: { name: 'd' }, spec: { finalizers: ['kubernetes'] } });
      },
    });
    await life.api.client().delete(namespaces, { name: 'd' });
    await life.clock.settle();
    return life;
  };

  it('reports pods that remain after their grace period as unexpected', async () => {
    const { api, clock } = await terminating((memory) => {
      memory.seed(pods, {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { namespace: 'd', name: 'p' },
        spec: { nodeName: 'n', terminationGracePeriodSeconds: 30, containers: [{ name: 'c', image: 'a' }] },
        status: { phase: 'Running' },
      });
    });
    expect(contentFailure(api)).toMatchObject({ status: 'False', reason: 'ContentDeleted' });
    await clock.advance(40_000);
    expect(contentFailure(api)).toMatchObject({
      status: 'True',
      reason: 'ContentDeletionFailed',
      message:
        'Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: d for gvr: /v1, Resource=pods',
    });
  });

  it('ends although the server does not serve the collections of a core resource', async () => {
    const { api } = await terminating((memory) => {
      memory.seed(apiServices, {
        metadata: { name: 'v1.' },
        spec: { version: 'v1', groupPriorityMinimum: 18_000, versionPriority: 1 },
      });
      memory.failNext(
        ({ verb, resource: { resource } }) => resource === 'configmaps' && (verb === 'deletecollection' || verb === 'list'),
        failure('MethodNotAllowed', 'the server does not allow this method on the requested resource'),
        1000,
      );
    });
    expect(api.object(namespaces, { name: 'd' })).toBeUndefined();
  });

  it('keeps status conditions that other clients have set', async () => {
    const { api, clock } = await runControllers([namespaceController], {
      defaults: false,
      seed: (memory) => {
        memory.seed(configMaps, { metadata: { namespace: 'd', name: 'a', finalizers: ['test/hold'] } });
        const condition = { type: 'example.com/Synced', status: 'True', reason: 'Synced', message: '' };
        memory.seed(namespaces, { metadata: { name: 'd' }, spec: { finalizers: ['kubernetes'] }, status: { conditions: [condition] } });
      },
    });
    await api.client().delete(namespaces, { name: 'd' });
    await clock.settle();
    const types = api.object(namespaces, { name: 'd' })?.status?.conditions?.map(({ type }) => type);
    expect(types).toHaveLength(6);
    expect(types?.[0]).toBe('example.com/Synced');
  });

  it('shows that the content is gone while a finalizer in the metadata keeps the namespace', async () => {
    const { api, clock } = await runControllers([namespaceController], {
      defaults: false,
      seed: (memory) => {
        memory.seed(configMaps, { metadata: { namespace: 'd', name: 'a', finalizers: ['test/hold'] } });
        memory.seed(namespaces, { metadata: { name: 'd', finalizers: ['test/hold'] }, spec: { finalizers: ['kubernetes'] } });
      },
    });
    const remaining = () =>
      api.object(namespaces, { name: 'd' })?.status?.conditions?.find(({ type }) => type === 'NamespaceContentRemaining');
    await api.client().delete(namespaces, { name: 'd' });
    await clock.settle();
    expect(remaining()).toMatchObject({ status: 'True' });
    await api.client().patch(configMaps, { namespace: 'd', name: 'a' }, 'merge', { metadata: { finalizers: [] } });
    await clock.advance(10_000);
    expect(remaining()).toMatchObject({ status: 'False', reason: 'ContentRemoved' });
    expect(api.object(namespaces, { name: 'd' })?.spec?.finalizers).toEqual([]);
  });

  it('reports the messages of the API server unchanged, in alphabetical order', async () => {
    const { api } = await terminating((memory) => {
      const handle = memory.handler.handle.bind(memory.handler);
      memory.handler.handle = (request, ...rest) => {
        const { resource } = request.resource;
        if (request.verb === 'list' && request.namespace === 'd' && ['secrets', 'configmaps'].includes(resource))
          return Promise.reject(failure('InternalError', `no ${resource}`));
        return handle(request, ...rest);
      };
    });
    expect(contentFailure(api)?.message).toBe('Failed to delete all resource types, 2 remaining: no configmaps, no secrets');
  });
});
