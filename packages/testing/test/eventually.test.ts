import { configMaps } from '@oarlock/api/resources';
import { expect, it } from 'vitest';
import { eventually } from '../src/eventually.ts';
import { FakeClock } from '../src/fake-clock.ts';
import { memoryApi } from '../src/memory-api.ts';
import { configMap } from '../src/objects.ts';

const open = () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  return { api, clock, client: api.client() };
};

it('runs the assertion after each change until it passes, also when watches are cut', async () => {
  const { api, client } = open();
  let runs = 0;
  const names = eventually({ client }, configMaps, {
    namespace: 'default',
    assert: (maps) => {
      runs++;
      expect(maps).toHaveLength(2);
      return maps.map(({ metadata }) => metadata?.name);
    },
  });
  await api.settle();
  expect(runs).toBe(1);
  await client.create(configMaps, configMap({ name: 'b' }));
  await api.settle();
  api.dropWatches();
  await client.create(configMaps, configMap({ name: 'a' }));
  expect(await names).toEqual(['a', 'b']);
});

it('rejects with the last error of the assertion', async () => {
  const { client, clock } = open();
  await client.create(configMaps, configMap({ name: 'a' }));
  const never = eventually({ client }, configMaps, {
    clock,
    assert: (maps) => {
      throw new Error(`there are ${maps.length}`);
    },
  });
  const rejection = expect(never).rejects.toThrow('there are 1');
  await clock.advance(30_000);
  await rejection;
});
