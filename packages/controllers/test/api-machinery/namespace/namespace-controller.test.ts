import { configMaps, endpoints, endpointSlices, namespaces, serviceAccounts, services } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';
import endpointSlice from '@oarlock/controllers/network/endpoint-slice/endpoint-slice-controller';
import mirroring from '@oarlock/controllers/network/endpoint-slice-mirroring/endpoint-slice-mirroring-controller';
import rootCa from '@oarlock/controllers/auth/root-ca/root-ca-controller';
import account from '@oarlock/controllers/auth/service-account/service-account-controller';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
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
