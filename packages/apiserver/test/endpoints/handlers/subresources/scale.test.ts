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
