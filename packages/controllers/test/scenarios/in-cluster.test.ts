import type { ConfigMap } from '@oarlock/api/types/core-v1';
import { configMaps, deviceTaintRulesV1beta2 } from '@oarlock/api/resources';
import type { Informer } from '@oarlock/spi/client';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it, vi } from 'vitest';
import { z } from 'zod';

it('shares one copy of each object between the controllers and the API server', async () => {
  const seen: (ConfigMap | undefined)[] = [];
  const informers: Informer<ConfigMap>[] = [];
  const name = 'shared-by-all';
  const looker = (id: string, fieldSelector?: string) =>
    Controllers.plugin({
      id,
      config: z.strictObject({}),
      needs: { informers: Informers },
      create({ informers: all }) {
        const maps = all.forResource(configMaps, { ...(fieldSelector !== undefined && { fieldSelector }) });
        informers.push(maps);
        return {
          name: id,
          watches: [watch(maps, ({ metadata }) => (metadata?.name === name ? [`default/${name}`] : []))],
          async reconcile(key) {
            seen.push(maps.get(key));
          },
        };
      },
    });
  await using cluster = await startCluster({
    plugins: [looker('controller-first'), looker('controller-second'), looker('controller-narrow', `metadata.name=${name}`)],
  });
  const { client } = cluster;
  await client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'default', name }, data: { a: 'b' } });
  await vi.waitFor(() => expect(seen.length).toBeGreaterThanOrEqual(3), 60_000);
  const [first, second, narrow] = informers;
  expect(second).toBe(first);
  expect(narrow).not.toBe(first);
  const copy = await client.get(configMaps, { namespace: 'default', name });
  expect(copy.data).toEqual({ a: 'b' });
  expect(new Set(seen.map((each) => each === copy))).toEqual(new Set([true]));
  expect(Object.isFrozen(copy)).toBe(true);
});

it('lets the device taint controller read rules and report their effect if they are served', async () => {
  await using cluster = await startCluster({ spec: { settings: { apiserver: { runtimeConfig: { 'resource.k8s.io/v1beta2': true } } } } });
  const { client } = cluster;
  const rule = {
    apiVersion: 'resource.k8s.io/v1beta2',
    kind: 'DeviceTaintRule',
    metadata: { name: 'sick' },
    spec: { deviceSelector: { driver: 'example.com' }, taint: { key: 'example.com/sick', effect: 'None' } },
  };
  await client.create(deviceTaintRulesV1beta2, rule);
  await vi.waitFor(async () => {
    const { status } = await client.get(deviceTaintRulesV1beta2, { name: 'sick' });
    expect(status?.conditions?.[0]).toMatchObject({ type: 'EvictionInProgress', status: 'False' });
  });
});
