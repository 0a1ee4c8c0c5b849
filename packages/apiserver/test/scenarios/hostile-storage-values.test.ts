import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { describe, expect, it } from 'vitest';
import { Codec } from '../../src/watch-cache/item.ts';
import { TestServer } from '../support/pipeline-fixture.ts';

/** Values that no API server writes, as an attacker with access to the storage could. Lists that would include an undecodable value fail. */
const values: readonly string[] = [
  '',
  'null',
  '5',
  '"text"',
  '[]',
  '{',
  '\0\xff\xfe',
  '{"metadata":null}',
  '{"metadata":5}',
  '{"metadata":[]}',
  '{"metadata":{"name":5,"namespace":{}}}',
  '{"metadata":{"name":"a","labels":5}}',
  '{"metadata":{"name":"a","labels":{"a":{}}}}',
  '{"metadata":{"name":"a","labels":null,"annotations":7}}',
  '{"metadata":{"name":"a","managedFields":5}}',
  '{"metadata":{"name":"a","managedFields":[5]}}',
  '{"metadata":{"name":"a","managedFields":[{"fieldsV1":"x"}]}}',
  '{"metadata":{"name":"a","ownerReferences":5,"finalizers":{}}}',
  '{"metadata":{"name":"a","creationTimestamp":{}}}',
  '{"metadata":{"name":"a","deletionTimestamp":5}}',
  '{"metadata":{"name":"a"},"data":5}',
  '{"__proto__":{"polluted":1},"metadata":{"name":"a","__proto__":{"polluted":1}}}',
  '{"metadata":{"name":"a","constructor":{"prototype":{"polluted":1}}}}',
  `{"metadata":{"name":"a"},"data":${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}}`,
  `{"metadata":{"name":"a"},"data":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
];
const key = (index: number) => `/registry/configmaps/default/hostile-${index}`;
const good = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'good', namespace: 'default', labels: { a: 'b' } } };

/** Returns true if the API server cannot decode the value as an object. */
const isUndecodable = (value: string): boolean => {
  try {
    new Codec('v1', 'ConfigMap').decode(Buffer.from(value, 'latin1'), 1);
    return false;
  } catch {
    return true;
  }
};
/** Returns true for a deeply nested value: whether it can be decoded depends on the free stack. */
const isDeep = (value: string): boolean => value.length > 10_000;
const undecodable = values.filter((value) => !isDeep(value) && isUndecodable(value));
const decodeError = {
  status: { code: 500, message: expect.stringContaining('unable to decode object at key "/registry/configmaps/default/') },
};

/** Expects that other objects are served. With `broken`, lists of the namespace fail, and those of single objects and other namespaces do not. */
async function expectService(server: TestServer, name: string, { broken = false } = {}): Promise<void> {
  await server.create('configmaps', { ...good, metadata: { ...good.metadata, name } }, { namespace: 'default' });
  for (const query of [{}, { labelSelector: 'a=b' }, { fieldSelector: `metadata.name=${name}` }, { limit: '3' }]) {
    const listed = server.list('configmaps', query, { namespace: 'default' });
    if (broken && !('fieldSelector' in query)) {
      await expect(listed).rejects.toMatchObject(decodeError);
      continue;
    }
    const { names } = await listed;
    if (!('limit' in query)) expect([query, names.includes(name)]).toEqual([query, true]);
  }
  expect((await server.list('configmaps', {}, { namespace: 'other' })).names).toEqual([]);
  expect((await server.get('configmaps', name, { namespace: 'default' })).metadata?.name).toBe(name);
  expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
}

describe('a hostile value in the storage', () => {
  it('is undecodable in some of the cases', () => {
    expect(undecodable.length).toBeGreaterThan(4);
    expect(undecodable.length).toBeLessThan(values.length - 4);
  });

  it.each(values.map((value) => ({ start: value.slice(0, 80), value })))(
    '$start does not stop the service when it is there at the start',
    async ({ value }) => {
      const storage = new MemoryStorage();
      await storage.commit([{ key: key(0), value: Buffer.from(value, 'latin1') }], []);
      const server = await TestServer.start({ storage });
      const read = server.get('configmaps', 'hostile-0', { namespace: 'default' });
      const broken = await read.then(
        () => false,
        (error: unknown) => {
          expect(error).toMatchObject(decodeError);
          return true;
        },
      );
      if (!isDeep(value)) expect(broken).toBe(undecodable.includes(value));
      await expectService(server, 'good', { broken });
      if (broken) {
        const body = { ignoreStoreReadErrorWithClusterBreakingPotential: true };
        await server.remove('configmaps', 'hostile-0', { namespace: 'default', body });
        await expectService(server, 'later');
      }
      await server.stop();
    },
  );

  it('does not stop watches, lists and writes of other objects when it arrives later', async () => {
    const storage = new MemoryStorage();
    const server = await TestServer.start({ storage });
    await expectService(server, 'first');
    const watch = await server.watch('configmaps', { labelSelector: 'a=b' }, { namespace: 'default' });
    const decodable = [...values.entries()].filter(([, value]) => !undecodable.includes(value) && !isDeep(value));
    for (const [index, value] of decodable) await storage.commit([{ key: key(index), value: Buffer.from(value, 'latin1') }], []);
    await expectService(server, 'second');
    for (const [index] of values.entries()) await storage.commit([{ key: key(index), value: null }], []);
    await expectService(server, 'third');
    const seen = new Set<string>();
    while (!seen.has('third')) {
      const frame = await watch.next();
      if (frame === undefined) break;
      if ('item' in frame) seen.add(frame.item.object.metadata?.name ?? '');
    }
    expect(seen).toContain('second');
    await server.stop();
  });

  it.each(undecodable.map((value) => ({ start: value.slice(0, 80), value })))(
    '$start ends watches with an error when it arrives later, and stops failing lists when it is deleted',
    async ({ value }) => {
      const storage = new MemoryStorage();
      const server = await TestServer.start({ storage });
      await expectService(server, 'first');
      const watch = await server.watch('configmaps', { resourceVersion: String(server.pipeline.revision) }, { namespace: 'default' });
      await storage.commit([{ key: key(0), value: Buffer.from(value, 'latin1') }], []);
      await expect(watch.next()).rejects.toMatchObject(decodeError);
      await expectService(server, 'second', { broken: true });
      await storage.commit([{ key: key(0), value: null }], []);
      await expectService(server, 'third');
      await server.stop();
    },
  );
});
