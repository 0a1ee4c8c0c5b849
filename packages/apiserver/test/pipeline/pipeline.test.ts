import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMaps, pods } from '@oarlock/api/resources';
import { StatusError } from '@oarlock/api/status';
import { StorageError } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { loopbackHandler } from '../../src/pipeline/loopback-handler.ts';
import { admin, configMap, pod, rejectionOf, resourceNamed, TestServer, type ServerOptions } from '../support/pipeline-fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => {
  server = await TestServer.start(options);
  return server;
};
afterEach(() => server.stop());
describe('errors', () => {
  const faulty = (fault: Error) =>
    new Proxy(new MemoryStorage(), {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'commit') return () => Promise.reject(fault);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });

  it.each([
    [new StorageError('Unavailable', 'no quorum'), 504, 'Timeout'],
    [new StorageError('TooLarge', 'limit is 1 MiB'), 413, 'RequestEntityTooLarge'],
    [new Error('a bug'), 500, 'InternalError'],
  ] as const)('of storage become a Status: %s', async (fault, code, reason) => {
    await start({ storage: faulty(fault) });
    const error = await rejectionOf(server.create('configmaps', configMap('a')));
    expect(error.status).toMatchObject({ code, reason });
    expect(error.message).toContain(fault.message);
    expect((await server.list('configmaps')).names).toEqual([]);
  });

  it('of plugins are InternalErrors and never allow a request', async () => {
    await start({
      authz: [
        {
          authorize: () => {
            throw new Error('broken');
          },
        },
      ],
    });
    expect((await rejectionOf(server.list('configmaps'))).status).toMatchObject({
      code: 500,
      reason: 'InternalError',
      message: 'Internal error occurred: broken',
    });
  });

  it('differ from the abort of the caller', async () => {
    await start();
    await server.create('configmaps', configMap('a'));
    expect(
      (await rejectionOf(server.patch('configmaps', 'a', { data: { a: 'b' } }, { signal: AbortSignal.abort() }))).status,
    ).toMatchObject({
      code: 504,
    });
  });
});

describe('loopback handler', () => {
  it('returns the cached objects themselves', async () => {
    await start();
    const handler = loopbackHandler(server.pipeline, (method, path) => Promise.resolve(`${method} ${path}`));
    const request = { resource: configMaps, subresource: '', namespace: 'default', name: '', query: {}, identity: admin };
    const created = await handler.handle({ ...request, verb: 'create', body: configMap('a') });
    expect(created).toMatchObject({ kind: 'object', code: 201, object: { metadata: { name: 'a' } }, warnings: [] });
    const listed = await handler.handle({ ...request, verb: 'list' });
    if (created.kind !== 'object' || listed.kind !== 'list') throw new Error('wrong kinds');
    expect(listed.list).toMatchObject({ kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion: '1' } });
    expect(listed.list.items[0]).toBe(created.object);
    const watched = await handler.handle({ ...request, verb: 'watch', query: { resourceVersion: '0' } });
    if (watched.kind !== 'watch') throw new Error('no watch');
    for await (const [event] of watched.events) {
      expect(event).toEqual({ type: 'ADDED', object: created.object });
      break;
    }
    expect(await handler.handlePath('GET', '/version', undefined, admin)).toBe('GET /version');
  });

  it('neither keeps nor freezes objects of the caller', async () => {
    await start();
    const handler = loopbackHandler(server.pipeline, () => Promise.resolve(undefined));
    const body = { ...configMap('a'), data: { x: 'y' } };
    await handler.handle({
      verb: 'create',
      resource: configMaps,
      subresource: '',
      namespace: 'default',
      name: '',
      query: {},
      identity: admin,
      body,
    });
    body.data.x = 'changed';
    expect(await server.get('configmaps', 'a')).toMatchObject({ data: { x: 'y' } });
  });

  it('rejects interactive streams', async () => {
    await start();
    await server.create('nodes', {
      kind: 'Node',
      apiVersion: 'v1',
      metadata: { name: 'n' },
      ...{ status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } },
    });
    await server.create('pods', pod('p', { nodeName: 'n' }));
    const handler = loopbackHandler(server.pipeline, () => Promise.resolve(undefined));
    await expect(
      handler.handle({ verb: 'get', resource: pods, subresource: 'log', namespace: 'default', name: 'p', query: {}, identity: admin }),
    ).rejects.toBeInstanceOf(StatusError);
  });
});

describe('several servers over one storage', () => {
  it("read each other's writes at once, and lose none", async () => {
    await start();
    const other = await TestServer.start({ storage: server.storage });
    for (let i = 0; i < 20; i++) {
      const created = await (i % 2 === 0 ? server : other).create('configmaps', configMap(`c${i}`));
      expect(await (i % 2 === 0 ? other : server).get('configmaps', `c${i}`)).toEqual(created);
    }
    await Promise.all(
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? server : other).patch('configmaps', 'c0', { data: { [`k${i}`]: 'v' } })),
    );
    expect(Object.keys((await other.get<KubeObject & { data: object }>('configmaps', 'c0')).data)).toHaveLength(40);
    await other.stop();
  });
});

it('includes every served kind by group and version', async () => {
  await start();
  expect(() => resourceNamed('nothing.example.com')).toThrow();
  expect(
    (await rejectionOf(server.list({ group: 'example.com', version: 'v1', resource: 'things', kind: 'Thing', namespaced: true }))).status,
  ).toMatchObject({ code: 404, message: 'the server could not find the requested resource' });
});
