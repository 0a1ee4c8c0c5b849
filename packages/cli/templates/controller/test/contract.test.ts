import { configMaps } from '@oarlock/api/resources';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import { __Kind__ } from '../src/kind.ts';
import plugin from '../src/plugin.ts';

const name = { namespace: 'default', name: 'hello' };
const begin = (api: MemoryApi) => void api.seed(__Kind__.resource, __Kind__.object(name, { message: 'hello', copies: 2 }));
const published = (api: MemoryApi) => api.objects(configMaps).map(({ metadata, data }) => `${metadata?.name} ${data?.['message']}`);

controllerPluginContract(plugin, [
  {
    title: 'publishes a message',
    steps: [begin],
    expectResult: (api) => expect(published(api)).toEqual(['hello-0 hello', 'hello-1 hello']),
  },
  {
    title: 'publishes another message in fewer copies',
    steps: [
      begin,
      async (api) => void (await api.client().patch(__Kind__.resource, name, 'merge', { spec: { message: 'bye', copies: 1 } })),
    ],
    expectResult: (api) => expect(published(api)).toEqual(['hello-0 bye']),
  },
]);
