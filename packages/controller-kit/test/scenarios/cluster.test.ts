import { configMaps, customResourceDefinitions } from '@oarlock/api/resources';
import { eventually } from '@oarlock/testing/eventually';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { controllerFor } from '../../src/controller-for.ts';
import { conversionPlugin } from '../../src/conversion.ts';
import { customResource } from '../../src/custom-resource.ts';
import { Website, websiteController } from '../support/website.ts';

const Lamp = customResource({
  group: 'example.com',
  kind: 'Lamp',
  scope: 'Cluster',
  version: { name: 'v2', spec: z.object({ watts: z.int() }) },
}).alsoServes(
  { name: 'v1', spec: z.object({ power: z.string() }) },
  {
    toStored: ({ metadata, spec }) => ({ metadata, spec: { watts: Number.parseInt(spec.power, 10) } }),
    fromStored: ({ metadata, spec }) => ({ metadata, spec: { power: `${spec.watts}W` } }),
  },
);
const lampController = controllerFor(Lamp, { id: 'controller-lamp' })
  .installDefinition()
  .reconcile(async () => {});

/** A controller and its custom resources in a cluster, as an author runs them. */
describe('a controller of the kit in a cluster', () => {
  let cluster: TestCluster;
  const inDefault = { namespace: 'default', name: 'shop' };

  beforeAll(async () => {
    cluster = await startCluster({ plugins: [websiteController, lampController, conversionPlugin('paths-lamp-conversion', Lamp)] });
    expect(cluster.warnings).toEqual([]);
    await Promise.all([cluster.whenServed(Website.resource), cluster.whenServed(Lamp.resource)]);
  });
  afterAll(() => cluster.stop());

  it('installs a definition without a structural fault, whose defaults and rules apply', async () => {
    const { client } = cluster;
    const definition = await client.get(customResourceDefinitions, { name: 'websites.example.com' });
    expect(definition.status?.conditions?.map(({ type, status }) => `${type}=${status}`).sort()).toEqual([
      'Established=True',
      'NamesAccepted=True',
    ]);
    const invalid = { ...Website.object({ namespace: 'default', name: 'forbidden' }, { title: 'T' }) };
    await expect(client.create(Website.resource, invalid)).rejects.toThrow('the name is reserved');
    const pages = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`p${i}`, '']));
    await expect(client.create(Website.resource, Website.object(inDefault, { title: 'T', pages }))).rejects.toThrow('at most 10 pages');
    const bare = { ...invalid, metadata: { namespace: 'default', name: 'bare' }, spec: { title: 'Bare' } } as Website;
    expect((await client.create(Website.resource, bare, { dryRun: true })).spec).toEqual({ title: 'Bare', pages: {}, replicas: 1 });
  });

  it('applies owned objects, sets the status, restores what others change, and cleans up', async () => {
    const { client } = cluster;
    await client.create(Website.resource, Website.object(inDefault, { title: 'Shop', pages: { index: 'hello' } }));
    const ready = await eventually(cluster, Website.resource, {
      timeoutMs: 120_000,
      assert: ([website]) => {
        expect(website?.status).toMatchObject({ pages: 1, conditions: [{ type: 'Ready', status: 'True', observedGeneration: 1 }] });
        return website;
      },
    });
    expect(ready?.metadata.finalizers).toEqual(['example.com/website']);
    const [map] = (await client.list(configMaps, { namespace: 'default', labelSelector: 'title=Shop' })).items;
    expect(map).toMatchObject({
      metadata: { name: 'shop-pages', ownerReferences: [{ kind: 'Website', name: 'shop', controller: true, blockOwnerDeletion: true }] },
      data: { index: 'hello' },
    });
    expect(map?.metadata?.managedFields?.map(({ manager, operation }) => `${manager} ${operation}`)).toEqual(['controller-website Apply']);
    await client.patch(configMaps, { namespace: 'default', name: 'shop-pages' }, 'merge', { data: { index: 'defaced' } });
    await eventually(cluster, configMaps, {
      labelSelector: 'title=Shop',
      assert: ([restored]) => expect(restored?.data).toEqual({ index: 'hello' }),
    });
    await client.delete(Website.resource, inDefault);
    await eventually(cluster, Website.resource, { assert: (websites) => expect(websites).toEqual([]) });
  });

  it('converts objects between versions in the API server', async () => {
    const { client } = cluster;
    await client.create(Lamp.resource, Lamp.object({ name: 'desk' }, { watts: 40 }));
    const first = Lamp.resourceOf('v1');
    expect(await client.get(first, { name: 'desk' })).toMatchObject({ apiVersion: 'example.com/v1', spec: { power: '40W' } });
    await client.patch(first, { name: 'desk' }, 'merge', { spec: { power: '60W' } });
    expect((await client.get(Lamp.resource, { name: 'desk' })).spec).toEqual({ watts: 60 });
  });
});
