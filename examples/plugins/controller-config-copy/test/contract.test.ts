import { configMaps, namespaces } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Informers } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { controllerContract } from '@oarlock/spi/controller/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const config = { namespace: 'shared', name: 'settings', label: 'example.com/settings' };
const namespace = (name: string, labels = {}) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
  status: { phase: 'Active' },
});
const settings = (color: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'shared', name: 'settings' },
  data: { color },
});
const colors = (api: MemoryApi) =>
  Object.fromEntries(api.objects(configMaps).map(({ metadata, data }) => [metadata?.namespace, data?.['color']]));

const begin = (api: MemoryApi) => {
  api.seed(namespaces, namespace('shared'), namespace('a', { 'example.com/settings': '' }), namespace('b'));
  api.seed(configMaps, settings('red'));
};

controllerContract('controller-config-copy', {
  open() {
    const clock = new FakeClock();
    return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformerFactory({ client, clock, random: sequence(7) }) };
  },
  create({ informers, clock }) {
    const [controller] = new PluginHost({ clock }).provide(Informers, informers).add({ plugin, config }).get(Controllers);
    if (controller === undefined) throw new Error('the plugin was not created');
    return controller;
  },
  scenarios: [
    {
      title: 'a copy in labelled namespaces only',
      steps: [begin],
      expectResult: (api) => expect(colors(api)).toEqual({ shared: 'red', a: 'red' }),
    },
    {
      title: 'a change of the original, and a namespace that is labelled later',
      steps: [
        begin,
        async (api) =>
          void (await api.client().patch(configMaps, { namespace: 'shared', name: 'settings' }, 'merge', { data: { color: 'blue' } })),
        async (api) =>
          void (await api.client().patch(namespaces, { name: 'b' }, 'merge', { metadata: { labels: { 'example.com/settings': '' } } })),
      ],
      expectResult: (api) => expect(colors(api)).toEqual({ shared: 'blue', a: 'blue', b: 'blue' }),
    },
    {
      title: 'a deleted copy is created again',
      steps: [begin, (api) => api.remove(configMaps, { namespace: 'a', name: 'settings' })],
      expectResult: (api) => expect(colors(api)).toEqual({ shared: 'red', a: 'red' }),
    },
  ],
});
