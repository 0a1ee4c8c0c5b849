import { configMaps } from '@oarlock/api/resources';
import { eventually } from '@oarlock/testing/eventually';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testController } from '@oarlock/testing/test-controller';
import { expect, it } from 'vitest';
import { __Kind__ } from '../src/kind.ts';
import plugin from '../src/plugin.ts';

const hello = __Kind__.object({ namespace: 'default', name: 'hello' }, { message: 'hello' });

it('publishes a message and reports it in the status', async () => {
  await using test = await testController(plugin, { config: { key: 'text' } });
  const created = await test.create(__Kind__.resource, hello);
  expect(created.status).toMatchObject({ copies: 1, conditions: [{ type: 'Ready', status: 'True' }] });
  expect(test.api.objects(configMaps).map(({ data }) => data)).toEqual([{ text: 'hello' }]);
  expect(test.errors).toEqual([]);
});

it('publishes a message in a cluster, which rejects invalid ones', async () => {
  await using cluster = await startCluster({ plugins: [plugin] });
  await cluster.whenServed(__Kind__.resource);
  await expect(cluster.client.create(__Kind__.resource, { ...hello, spec: { message: '', copies: 1 } })).rejects.toThrow('spec.message');
  await cluster.client.create(__Kind__.resource, hello);
  await eventually(cluster, configMaps, {
    fieldSelector: 'metadata.name=hello-0',
    assert: (maps) => expect(maps.map(({ data }) => data)).toEqual([{ message: 'hello' }]),
  });
});
