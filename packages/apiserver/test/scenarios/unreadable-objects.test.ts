import type { KubeObject } from '@oarlock/api/object';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Authorizer } from '@oarlock/spi/authz';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EncryptedStorage } from '../../src/storage/encryption/encrypted-storage.ts';
import { aesGcm, identity, type Transformer } from '../../src/storage/encryption/transformers.ts';
import { settlePromises, TestServer, type ServerOptions } from '../support/pipeline-fixture.ts';

const [ours, theirs] = [aesGcm('ours', Buffer.alloc(32, 1)), aesGcm('theirs', Buffer.alloc(32, 2))];
const secret = (name: string, namespace = 'default'): KubeObject => ({
  ...{ kind: 'Secret', apiVersion: 'v1', metadata: { name, namespace } },
  ...{ data: { word: 'b3Blbg==' } },
});
const lost = { namespace: 'default', name: 'lost' };
const cannotTransform = {
  status: {
    reason: 'InternalError',
    code: 500,
    message:
      'Internal error occurred: unable to transform key "/registry/secrets/default/lost": no encryption key of this API server decrypts the value',
  },
};
const unsafe = { ignoreStoreReadErrorWithClusterBreakingPotential: true };

let inner: MemoryStorage;
const servers: TestServer[] = [];
const encrypted = (...transformers: readonly [Transformer, ...Transformer[]]): EncryptedStorage => {
  const storage = new EncryptedStorage(inner, silentLogger);
  storage.setRules([{ resources: ['secrets'], transformers }]);
  return storage;
};
async function start(storage: EncryptedStorage, options: ServerOptions = {}): Promise<TestServer> {
  const server = await TestServer.start({ storage, ...options });
  servers.push(server);
  return server;
}

beforeEach(() => {
  inner = new MemoryStorage();
});
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
});

/** Starts another server, whose key this server does not have, and writes the Secret `lost` with it. */
async function writeLost(): Promise<TestServer> {
  const other = await start(encrypted(theirs, ours, identity));
  await other.create('secrets', secret('lost'));
  return other;
}

describe('a Secret that no key of the API server decrypts', () => {
  it.each(['before', 'after'] as const)('makes get, list, watch, update and delete fail if it was written %s the start', async (when) => {
    const storage = encrypted(ours, identity);
    if (when === 'before') await writeLost();
    const server = await start(storage);
    if (when === 'after') await writeLost();
    await server.create('secrets', secret('readable'));
    await server.create('secrets', secret('elsewhere', 'other'));
    await expect(server.object('get', 'secrets', lost)).rejects.toMatchObject(cannotTransform);
    await expect(server.object('get', 'secrets', { ...lost, query: { resourceVersion: '0' } })).rejects.toMatchObject(cannotTransform);
    await expect(server.object('update', 'secrets', { ...lost, body: secret('lost') })).rejects.toMatchObject(cannotTransform);
    await expect(server.object('delete', 'secrets', lost)).rejects.toMatchObject(cannotTransform);
    await expect(server.handle('deletecollection', 'secrets', { namespace: 'default' })).rejects.toMatchObject(cannotTransform);
    for (const query of [{}, { resourceVersion: '0' }, { limit: '1' }, { labelSelector: 'a=b' }, { fieldSelector: 'metadata.name=lost' }])
      for (const namespace of ['', 'default'])
        if (namespace === 'default' || !('fieldSelector' in query))
          await expect(server.handle('list', 'secrets', { namespace, query })).rejects.toMatchObject(cannotTransform);
    await expect(server.handle('watch', 'secrets', { namespace: 'default' })).rejects.toMatchObject(cannotTransform);
    await expect(server.handle('watch', 'secrets', { query: { resourceVersion: '0' } })).rejects.toMatchObject(cannotTransform);
    // other objects are not affected
    expect(await server.object('get', 'secrets', { namespace: 'default', name: 'readable' })).toMatchObject({ data: { word: 'b3Blbg==' } });
    expect((await server.handle('list', 'secrets', { namespace: 'other' })).kind).toBe('list');
    expect(
      (await server.handle('list', 'secrets', { namespace: 'default', query: { fieldSelector: 'metadata.name=readable' } })).kind,
    ).toBe('list');
    await expect(server.create('secrets', secret('lost'))).rejects.toMatchObject({ status: { reason: 'AlreadyExists' } });
  });

  it('ends watches with the error instead of reporting a deletion', async () => {
    const server = await start(encrypted(ours, identity));
    await server.create('secrets', secret('lost'));
    const response = await server.handle('watch', 'secrets', { query: {} });
    if (response.kind !== 'watch') throw new Error('no watch');
    const types: string[] = [];
    const watched = (async () => {
      for await (const frames of response.frames) for (const { type } of [frames].flat()) types.push(type);
    })();
    await settlePromises();
    const other = await start(encrypted(theirs, ours, identity));
    await other.object('update', 'secrets', { ...lost, body: { ...secret('lost'), ...{ data: { word: 'bmV3' } } } });
    await expect(watched).rejects.toMatchObject(cannotTransform);
    expect(types).toEqual(['ADDED']);
  });

  it('can be read when its key is added', async () => {
    const storage = encrypted(ours, identity);
    await writeLost();
    const server = await start(storage);
    expect(server.pipeline.undecryptableValues).toBe(1);
    storage.setRules([{ resources: ['secrets'], transformers: [ours, theirs, identity] }]);
    await server.pipeline.rereadUnreadable();
    expect(server.pipeline.undecryptableValues).toBe(0);
    expect(await server.object('get', 'secrets', lost)).toMatchObject({ data: { word: 'b3Blbg==' } });
    const { items } = (await server.handle('list', 'secrets')) as { readonly items: readonly unknown[] };
    expect(items).toHaveLength(1);
  });

  it('can be read again after another server has written it with a known key', async () => {
    const server = await start(encrypted(ours, identity));
    await writeLost();
    const both = await start(encrypted(ours, theirs, identity));
    await both.object('update', 'secrets', { ...lost, body: { ...secret('lost'), ...{ data: { word: 'bmV3' } } } });
    expect(await server.object('get', 'secrets', lost)).toMatchObject({ data: { word: 'bmV3' } });
    expect(server.pipeline.undecryptableValues).toBe(0);
  });
});

describe('a value in storage that is not an object', () => {
  it('makes reads fail without quoting the value', async () => {
    await inner.commit([{ key: '/registry/configmaps/default/broken', value: Buffer.from('{"data": "hidden') }], []);
    const server = await start(encrypted(ours, identity));
    const error = {
      status: { code: 500, message: 'Internal error occurred: unable to decode object at key "/registry/configmaps/default/broken"' },
    };
    await expect(server.handle('list', 'configmaps')).rejects.toMatchObject(error);
    await expect(server.object('get', 'configmaps', { namespace: 'default', name: 'broken' })).rejects.toMatchObject(error);
  });
});

describe('ignoreStoreReadErrorWithClusterBreakingPotential', () => {
  const denyUnsafe: Authorizer = {
    authorize: ({ verb }) =>
      verb === 'unsafe-delete-ignore-read-errors' ? { decision: 'no-opinion', reason: 'no rule' } : { decision: 'allow', reason: 'test' },
  };

  it('deletes an object that cannot be decrypted', async () => {
    const server = await start(encrypted(ours, identity));
    await writeLost();
    await expect(server.object('delete', 'secrets', lost)).rejects.toMatchObject(cannotTransform);
    expect(await server.object('delete', 'secrets', { ...lost, body: unsafe })).toMatchObject({ kind: 'Status', status: 'Success' });
    await expect(server.object('get', 'secrets', lost)).rejects.toMatchObject({ status: { reason: 'NotFound' } });
    expect((await server.handle('list', 'secrets')).kind).toBe('list');
  });

  it('requires the verb unsafe-delete-ignore-read-errors', async () => {
    const server = await start(encrypted(ours, identity), { authz: [denyUnsafe] });
    await writeLost();
    await expect(server.object('delete', 'secrets', { ...lost, body: unsafe })).rejects.toMatchObject({
      status: {
        reason: 'Forbidden',
        message: 'secrets "lost" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: no rule',
      },
    });
  });

  it('is rejected for an object that can be read, for none, and with other options', async () => {
    const server = await start(encrypted(ours, identity));
    await server.create('secrets', secret('readable'));
    await expect(server.object('delete', 'secrets', { namespace: 'default', name: 'readable', body: unsafe })).rejects.toMatchObject({
      status: {
        reason: 'Invalid',
        message: expect.stringContaining('is exclusively used to delete corrupt object(s), try again by removing this option'),
      },
    });
    await expect(server.object('delete', 'secrets', { ...lost, body: unsafe })).rejects.toMatchObject({ status: { reason: 'NotFound' } });
    await expect(server.object('delete', 'secrets', { ...lost, body: { ...unsafe, gracePeriodSeconds: 0 } })).rejects.toMatchObject({
      status: { reason: 'Invalid', message: expect.stringContaining('cannot be set together with .gracePeriodSeconds') },
    });
  });
});
