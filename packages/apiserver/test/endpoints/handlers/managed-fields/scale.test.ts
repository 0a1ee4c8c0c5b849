import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject, ManagedFieldsEntry } from '@oarlock/api/object';
import { rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
  await server.create(
    'deployments.apps',
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'd' },
      ...{
        spec: {
          replicas: 1,
          selector: { matchLabels: { app: 'd' } },
          template: { metadata: { labels: { app: 'd' } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
        },
      },
    },
    { userAgent: 'kubectl/v1.33.0' },
  );
});
afterEach(() => server.stop());

const scale = (replicas: number | string, query: Record<string, string> = { fieldManager: 'me' }) =>
  server.object<KubeObject & { spec: { replicas: number } }>('patch', 'deployments.apps', {
    namespace: 'default',
    name: 'd',
    subresource: 'scale',
    patchType: 'apply',
    body: { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'd' }, spec: { replicas } },
    query,
  });
const owners = async () =>
  ((await server.get('deployments.apps', 'd')).metadata?.managedFields ?? ([] as readonly ManagedFieldsEntry[]))
    .filter(({ fieldsV1 }) => JSON.stringify(fieldsV1).includes('"f:replicas"'))
    .map(({ manager, operation, subresource, apiVersion }) => ({ manager, operation, subresource, apiVersion }));

describe('scale', () => {
  it('makes the manager of the scale own the replicas of the workload', async () => {
    expect(await owners()).toEqual([{ manager: 'kubectl', operation: 'Update', subresource: undefined, apiVersion: 'apps/v1' }]);
    await server.patch('deployments.apps', 'd', { spec: { replicas: 3 } }, { subresource: 'scale', userAgent: 'autoscaler/1' });
    expect(await owners()).toEqual([{ manager: 'autoscaler', operation: 'Update', subresource: 'scale', apiVersion: 'apps/v1' }]);
    // unchanged fields keep their managers
    await server.patch('deployments.apps', 'd', { spec: { replicas: 3 } }, { subresource: 'scale', userAgent: 'another/1' });
    expect(await owners()).toMatchObject([{ manager: 'autoscaler' }]);
  });

  it('supports apply with conflicts', async () => {
    expect((await rejectionOf(scale(4))).status).toMatchObject({
      code: 409,
      message: 'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas',
    });
    expect((await scale(4, { fieldManager: 'me', force: 'true' })).spec.replicas).toBe(4);
    expect(await owners()).toEqual([{ manager: 'me', operation: 'Apply', subresource: 'scale', apiVersion: 'apps/v1' }]);
    expect((await rejectionOf(scale('x'))).status.message).toBe(
      'failed to create typed patch object (/d; autoscaling/v1, Kind=Scale): .spec.replicas: expected numeric (int or float), got string',
    );
    expect((await rejectionOf(scale(4, {}))).status.code).toBe(422);
  });
});
