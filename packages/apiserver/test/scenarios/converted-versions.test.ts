import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { afterEach, describe, expect, it } from 'vitest';
import {
  custom,
  definition,
  establish,
  resourceOf,
  startServer as startPipeline,
  stopServers,
} from '../support/custom-resource-definitions.ts';
import { startServer } from '../support/start-server.ts';

afterEach(stopServers);

const v1 = resource('autoscaling', 'v1', 'horizontalpodautoscalers', 'HorizontalPodAutoscaler', true);
const v2 = resource('autoscaling', 'v2', 'horizontalpodautoscalers', 'HorizontalPodAutoscaler', true);
const autoscaler = (apiVersion: string): KubeObject =>
  ({
    apiVersion,
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'a' },
    spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' }, maxReplicas: 3 },
  }) as unknown as KubeObject;

describe('a version other than the storage version', () => {
  it('gets the defaults of the storage version', async () => {
    const server = await startPipeline();
    const at = { namespace: 'default' };
    const created = await server.create(v1, autoscaler('autoscaling/v1'), at);
    expect(created).toMatchObject({ spec: { minReplicas: 1, targetCPUUtilizationPercentage: 80 } });
    expect(await server.get(v2, 'a', at)).toMatchObject({
      spec: { metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } }] },
    });
  });

  it('is listed without the type of its items', async () => {
    const core = await startPipeline();
    await core.create(v1, autoscaler('autoscaling/v1'), { namespace: 'default' });
    const server = await startServer({}, core.pipeline);
    try {
      const path = '/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers';
      const { items } = (await server.http1('GET', path)).json<{ items: readonly KubeObject[] }>();
      expect(items.map((item) => Object.keys(item))).toEqual([['metadata', 'spec', 'status']]);
    } finally {
      await server.stop();
    }
  });
});

describe('a dry run of an update in another version than the storage version', () => {
  it('returns the custom resource in the version of the request', async () => {
    const server = await startPipeline();
    const created = definition({ versions: [{ name: 'v1' }, { name: 'v2' }] });
    await establish(server, created);
    const of = resourceOf(created, 'v2');
    const at = { namespace: 'default' };
    await server.create(of, custom(of, 'a'), at);
    const dryRun = await server.patch(of, 'a', { spec: { b: 1 } }, { ...at, query: { dryRun: 'All' } });
    expect(dryRun).toMatchObject({ apiVersion: 'example.com/v2', spec: { b: 1 } });
    expect(await server.get(of, 'a', at)).not.toHaveProperty('spec');
  });
});
