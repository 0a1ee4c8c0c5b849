import { expect, it } from 'vitest';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { configMap, pod, TestClock, TestServer } from '../support/pipeline-fixture.ts';

it('objects with equal managers share them, also after reading from storage', async () => {
  const clock = new TestClock();
  const storage = new MemoryStorage({ clock });
  const server = await TestServer.start({ storage, clock });
  const one = await server.create('pods', pod('a'), { userAgent: 'x/1' });
  const two = await server.create('pods', pod('b'), { userAgent: 'x/1' });
  expect(two.metadata?.managedFields).toBe(one.metadata?.managedFields);
  await clock.advance(1000);
  const later = await server.create('pods', pod('c'), { userAgent: 'x/1' });
  expect(later.metadata?.managedFields?.[0]?.fieldsV1).toBe(one.metadata?.managedFields?.[0]?.fieldsV1);
  const other = await server.create('pods', pod('d', { hostNetwork: true }), { userAgent: 'x/1' });
  expect(other.metadata?.managedFields).not.toEqual(later.metadata?.managedFields);
  // the stored bytes do not depend on the sharing
  const { items } = await server.list('pods');
  for (const item of items) expect(JSON.parse(item.json().toString())).toEqual(item.object);
  await server.stop();

  const again = await TestServer.start({ storage, clock });
  const read = (await again.list('pods')).items.map(({ object }) => object.metadata?.managedFields?.[0]?.fieldsV1);
  expect(read[1]).toBe(read[0]);
  expect(await again.get('pods', 'a')).toEqual(one);
  await again.stop();
});

it('force accepts boolean values', async () => {
  const server = await TestServer.start();
  const apply = (fieldManager: string, value: string, force?: string) =>
    server.object('patch', 'configmaps', {
      namespace: 'default',
      name: 'a',
      patchType: 'apply',
      body: configMap('a', { k: value }),
      query: { fieldManager, ...(force !== undefined && { force }) },
    });
  await apply('one', '0');
  for (const force of [undefined, 'false', 'False', '0']) await expect(apply('two', '1', force)).rejects.toThrow('1 conflict');
  for (const [i, force] of ['true', '1', ''].entries()) await apply(`m${i}`, String(i + 1), force);
  await server.stop();
});
