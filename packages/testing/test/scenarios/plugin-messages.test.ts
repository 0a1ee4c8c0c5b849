import type { Resource } from '@oarlock/api/resource';
import { configMaps, customResourceDefinitions } from '@oarlock/api/resources';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { expect, it, vi } from 'vitest';
import { z } from 'zod';
import { FakeClock } from '../../src/fake-clock.ts';
import { startCluster } from '../../src/start-cluster.ts';

/** The first cluster of a file loads all plugins. */
const limits = { timeout: 180_000 };
const lamps: Resource = {
  group: 'example.com',
  version: 'v1',
  resource: 'lamps',
  kind: 'Lamp',
  singular: 'lamp',
  namespaced: false,
} as Resource;
const lampDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'lamps.example.com' },
  spec: {
    group: 'example.com',
    names: { plural: 'lamps', singular: 'lamp', kind: 'Lamp', listKind: 'LampList' },
    scope: 'Cluster',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

/** Logs, then fails, for each ConfigMap with the label. */
const failing = Controllers.plugin({
  id: 'controller-failing',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create: ({ informers }) => ({
    name: 'failing',
    watches: [
      watch(informers.forResource(configMaps), ({ metadata }) => (metadata?.labels?.['fail'] === undefined ? [] : [metadata.name ?? ''])),
    ],
    async reconcile(key, { log }) {
      log.info({ key, token: 'abc', monkey: 'banana' }, 'about to fail');
      await breakOn(key);
    },
  }),
});
async function breakOn(key: string): Promise<never> {
  await Promise.resolve();
  throw new Error(`cannot handle ${key}`);
}

it('startCluster prints logs and failures of a controller with its name and its own lines, without secrets', limits, async () => {
  const printed: string[] = [];
  await using cluster = await startCluster({ plugins: [failing], print: (text) => printed.push(text) });
  const metadata = { namespace: 'default', name: 'web', labels: { fail: '' } };
  await cluster.client.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata });
  await vi.waitFor(() => expect(printed.length).toBeGreaterThan(1), 150_000);
  expect(printed[0]).toBe('controller-failing about to fail {"key":"web","token":"<redacted>","monkey":"banana"}');
  expect(printed[1]).toMatch(
    /^controller-failing reconcile of web failed; retrying: cannot handle web\n\s+at breakOn \(.*plugin-messages\.test\.ts:\d+:\d+\)/,
  );
});

it('warns about a controller that waits for a kind, which runs when the kind is served', limits, async () => {
  const printed: string[] = [];
  const watching = Controllers.plugin({
    id: 'controller-lamps',
    config: z.strictObject({}),
    needs: { informers: Informers },
    create: ({ informers }, { log }) => ({
      name: 'lamps',
      watches: [watch(informers.forResource(lamps), ({ metadata }) => [metadata?.name ?? ''])],
      reconcile: async (key) => log.info({ key }, 'seen'),
    }),
  });
  await using cluster = await startCluster({ plugins: [watching], print: (text) => printed.push(text) });
  expect(cluster.warnings).toEqual([
    'controller-lamps waits until the API server serves lamps of example.com/v1: apply their CustomResourceDefinition, or correct the resource',
  ]);
  await cluster.client.create(customResourceDefinitions, lampDefinition as never);
  await cluster.whenServed(lamps);
  await cluster.client.create(lamps, { apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'desk' } });
  await vi.waitFor(() => expect(printed).toContain('controller-lamps seen {"key":"desk"}'), 150_000);
});

it('a kind is found by the change of its definition: no interval elapses', limits, async () => {
  await using cluster = await startCluster({ roles: ['apiserver'] });
  const clock = new FakeClock(); // nothing advances it
  const discovery = new ResourceDiscovery(cluster.client, clock);
  expect(await discovery.has(lamps)).toBe(false); // fetched again only after an interval or a change
  const served = discovery.whenServed([lamps], AbortSignal.timeout(150_000));
  await cluster.client.create(customResourceDefinitions, lampDefinition as never);
  await served;
});
