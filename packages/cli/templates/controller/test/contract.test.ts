import { namespaces } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Informers } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { controllerContract } from '@oarlock/spi/controller/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const label = 'example.com/team';
const namespace = (name: string, labels = {}) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
  status: { phase: 'Active' },
});
const labels = (api: MemoryApi) =>
  Object.fromEntries(api.objects(namespaces).map(({ metadata }) => [metadata?.name, metadata?.labels?.[label]]));
const begin = (api: MemoryApi) => void api.seed(namespaces, namespace('a'), namespace('b', { [label]: 'blue' }));

controllerContract('__ID__', {
  open() {
    const clock = new FakeClock();
    return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformerFactory({ client, clock, random: sequence(7) }) };
  },
  create({ informers, clock }) {
    const host = new PluginHost({ clock }).provide(Informers, informers).add({ plugin, config: { label, value: 'none' } });
    const [controller] = host.get(Controllers);
    if (controller === undefined) throw new Error('the plugin was not created');
    return controller;
  },
  scenarios: [
    {
      title: 'the label where there was none',
      steps: [begin],
      expectResult: (api) => expect(labels(api)).toEqual({ a: 'none', b: 'blue' }),
    },
    {
      title: 'a label that somebody takes away',
      steps: [
        begin,
        async (api) => void (await api.client().patch(namespaces, { name: 'b' }, 'merge', { metadata: { labels: { [label]: null } } })),
      ],
      expectResult: (api) => expect(labels(api)).toEqual({ a: 'none', b: 'none' }),
    },
  ],
});
