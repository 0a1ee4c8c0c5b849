import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());
describe('scale', () => {
  const scale = (replicas: number, more: KubeObject['metadata'] = {}): KubeObject => ({
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name: 'd', ...more },
    ...{ spec: { replicas } },
  });
  beforeEach(async () => {
    const spec = {
      replicas: 2,
      selector: { matchLabels: { app: 'd' } },
      template: { metadata: { labels: { app: 'd' } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
    };
    await server.create('deployments.apps', { kind: 'Deployment', apiVersion: 'apps/v1', metadata: { name: 'd' }, ...{ spec } });
  });

  it('returns and changes the replicas', async () => {
    const scaleObject = await server.get('deployments.apps', 'd', { subresource: 'scale' });
    expect(scaleObject).toMatchObject({
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'd', resourceVersion: '1' },
      spec: { replicas: 2 },
      status: { replicas: 0, selector: 'app=d' },
    });
    expect(await server.update('deployments.apps', scale(5), { subresource: 'scale' })).toMatchObject({
      metadata: { resourceVersion: '2' },
      spec: { replicas: 5 },
    });
    expect(await server.patch('deployments.apps', 'd', { spec: { replicas: 3 } }, { subresource: 'scale' })).toMatchObject({
      spec: { replicas: 3 },
    });
    expect(
      await server.patch('deployments.apps', 'd', [{ op: 'replace', path: '/spec/replicas', value: 4 }], {
        subresource: 'scale',
        patchType: 'json',
      }),
    ).toMatchObject({ spec: { replicas: 4 } });
    expect(await server.get('deployments.apps', 'd')).toMatchObject({
      metadata: { generation: 4 },
      spec: { replicas: 4, selector: { matchLabels: { app: 'd' } } },
    });
  });

  const metadata = {
    labels: { attack: 'a' },
    annotations: { attack: 'a' },
    finalizers: ['example.com/attack'],
    ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'attack', uid: '1' }],
    deletionTimestamp: '2026-01-01T00:00:00Z',
  };
  const attack = { metadata, spec: { replicas: 7, selector: {}, template: null, paused: true }, status: { replicas: 9, selector: 'a=b' } };
  it.each<readonly [string, () => Promise<unknown>]>([
    [
      'PUT',
      () => server.update('deployments.apps', { ...scale(7), ...attack, metadata: { name: 'd', ...metadata } }, { subresource: 'scale' }),
    ],
    ['merge patch', () => server.patch('deployments.apps', 'd', attack, { subresource: 'scale' })],
    ['strategic merge patch', () => server.patch('deployments.apps', 'd', attack, { subresource: 'scale', patchType: 'strategic' })],
    [
      'JSON patch',
      () =>
        server.patch(
          'deployments.apps',
          'd',
          [
            { op: 'add', path: '/metadata/finalizers', value: metadata.finalizers },
            { op: 'add', path: '/metadata/ownerReferences', value: metadata.ownerReferences },
            { op: 'replace', path: '/spec/replicas', value: 7 },
          ],
          { subresource: 'scale', patchType: 'json' },
        ),
    ],
    [
      'apply',
      () =>
        server.patch(
          'deployments.apps',
          'd',
          { ...scale(7), metadata: { name: 'd', labels: metadata.labels, finalizers: metadata.finalizers } },
          { subresource: 'scale', patchType: 'apply', query: { fieldManager: 'x', force: 'true' } },
        ),
    ],
  ])('changes nothing but the replicas by %s', async (_how, write) => {
    const own = (object: KubeObject) => ({
      ...object,
      metadata: { ...object.metadata, managedFields: [], resourceVersion: '', generation: 0 },
    });
    const before = own(await server.get('deployments.apps', 'd'));
    await write();
    const after = own(await server.get('deployments.apps', 'd'));
    expect(after).toEqual({ ...before, spec: { ...(before as { readonly spec?: object }).spec, replicas: 7 } });
  });

  it('is rejected if it is stale or invalid', async () => {
    expect(
      (await rejectionOf(server.update('deployments.apps', scale(5, { resourceVersion: '99' }), { subresource: 'scale' }))).reason,
    ).toBe('Conflict');
    expect((await rejectionOf(server.update('deployments.apps', scale(-1), { subresource: 'scale' }))).message).toBe(
      'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
    );
    expect(
      (await rejectionOf(server.update('deployments.apps', scale(1, { name: 'e' }), { subresource: 'scale', name: 'd' }))).message,
    ).toContain('does not match the name on the URL');
    expect((await rejectionOf(server.get('deployments.apps', 'nobody', { subresource: 'scale' }))).reason).toBe('NotFound');
  });

  it('does not write in a dry run', async () => {
    expect(await server.update('deployments.apps', scale(9), { subresource: 'scale', query: { dryRun: 'All' } })).toMatchObject({
      spec: { replicas: 9 },
    });
    expect(await server.get('deployments.apps', 'd')).toMatchObject({ spec: { replicas: 2 } });
  });
});
