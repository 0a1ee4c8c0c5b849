import { configMaps, customResourceDefinitions } from '@oarlock/api/resources';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { controllerFor } from '../src/controller-for.ts';
import { Website, websiteController } from './support/website.ts';

const shop = (pages: Record<string, string>) => Website.object({ namespace: 'default', name: 'shop' }, { title: 'Shop', pages });
const begin = (api: MemoryApi) => {
  const { name = '' } = Website.definition.metadata ?? {};
  if (api.object(customResourceDefinitions, { name }) === undefined) api.seed(customResourceDefinitions, Website.definition);
  api.seed(Website.resource, shop({ index: 'hello', about: 'us' }));
};
const stateOf = (api: MemoryApi) => ({
  pages: api.objects(configMaps).map(({ metadata, data }) => [metadata?.name, metadata?.labels, data]),
  status: api
    .objects(Website.resource)
    .map(({ status }) => [status?.pages, status?.conditions?.map(({ status: is, reason }) => `${is} ${reason}`)]),
});

controllerPluginContract(websiteController, [
  {
    title: 'publishes the pages',
    steps: [begin],
    expectResult: (api) =>
      expect(stateOf(api)).toEqual({
        pages: [['shop-pages', { title: 'Shop' }, { index: 'hello', about: 'us' }]],
        status: [[2, ['True Published']]],
      }),
  },
  {
    title: 'removes a page, and repairs a page that another client changes',
    steps: [
      begin,
      async (api) =>
        void (await api
          .client()
          .patch(Website.resource, { namespace: 'default', name: 'shop' }, 'merge', { spec: { pages: { about: null } } })),
      async (api) => {
        const name = { namespace: 'default', name: 'shop-pages' };
        if (api.object(configMaps, name) !== undefined) await api.client().patch(configMaps, name, 'merge', { data: { index: 'defaced' } });
      },
    ],
    expectResult: (api) =>
      expect(stateOf(api)).toEqual({ pages: [['shop-pages', { title: 'Shop' }, { index: 'hello' }]], status: [[1, ['True Published']]] }),
  },
  {
    title: 'removes the finalizer of a deleted website',
    steps: [begin, async (api) => void (await api.client().delete(Website.resource, { namespace: 'default', name: 'shop' }))],
    expectResult: (api) => expect(api.objects(Website.resource)).toEqual([]),
  },
]);

describe('controllerFor', () => {
  it('declares the permissions of its helpers', () => {
    expect(websiteController.declares).toEqual({
      loop: 'website',
      rules: [
        'get,patch | example.com | websites,websites/status',
        'update | example.com | websites/finalizers',
        'get,create,patch,delete | core | configmaps',
        'create | apiextensions.k8s.io | customresourcedefinitions',
        'get,patch | apiextensions.k8s.io | customresourcedefinitions | websites.example.com',
      ].join('; '),
    });
  });

  it('rejects ids, finalizers and numbers of workers that are invalid', () => {
    expect(() => controllerFor(Website, { id: 'website' })).toThrow('the id "website" must have the form controller-<name>');
    expect(() => controllerFor(Website, { id: 'controller-website' }).finalizer('cleanup', async () => {})).toThrow(
      '"cleanup" must be a qualified name',
    );
    expect(() => controllerFor(Website, { id: 'controller-website' }).concurrency(0)).toThrow('positive integer, not 0');
    expect(() => controllerFor(configMaps, { id: 'controller-maps' }).installDefinition()).toThrow('configmaps is not a custom resource');
  });
});
