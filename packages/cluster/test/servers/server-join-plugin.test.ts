import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { secrets } from '@oarlock/api/resources';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client } from '@oarlock/spi/client';
import { Paths } from '@oarlock/spi/paths';
import { Storage, type StorageDriver } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProcessStorageServer } from '../../src/pki/storage-server.ts';
import { sealedKeyField, serversGroup } from '../../src/servers/join-token.ts';
import { serverJoinPlugin } from '../../src/servers/server-join-plugin.ts';
import { prepareSharedKeys } from '../../src/servers/shared-keys.ts';
import { planWith, sharedStorage } from './shared-storage.ts';

describe('a server that joins', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(joinPath(tmpdir(), 'server-join-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));
  const member = (name: string, alarms: readonly string[]): StorageMember => ({
    ...{
      name,
      id: name,
      endpoint: `https://${name}:2379`,
      role: 'Follower',
      version: '3.4.23',
      databaseBytes: 0,
      databaseBytesInUse: 0,
      alarms,
    },
  });
  const join = async (members: readonly StorageMember[]) => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const driver: StorageDriver = sharedStorage();
    const plan = await planWith(driver);
    const options = { plan, dataDir: directory, storageServer: new ProcessStorageServer(plan, directory), now: 0 };
    await prepareSharedKeys({ ...options, issuer: 'https://issuer.example', signal: new AbortController().signal });
    api.seed(secrets, {
      metadata: { namespace: 'kube-system', name: 'bootstrap-token-abcdef' },
      data: { [sealedKeyField]: Buffer.from('sealed').toString('base64') },
    });
    const storage = Object.assign(driver, { members: { list: async () => members, endpoints: () => ['https://a:2379'] } });
    const host = new PluginHost({ clock })
      .provide(Client, api.client())
      .provide(Storage, storage as never)
      .add({ plugin: serverJoinPlugin(), config: {} });
    await host.start();
    const [path] = host.get(Paths);
    const identity = { name: 'system:bootstrap:abcdef', groups: [serversGroup] };
    const answer = await path?.handle({
      method: 'POST',
      body: { name: 'd' },
      query: {},
      path: '/oarlock/v1/server-join',
      identity,
    } as never);
    await host.stop();
    await api.stop();
    return answer;
  };

  it('obtains the sealed keys and the members', async () => {
    expect(await join([member('a', []), member('b', [])])).toMatchObject({
      code: 200,
      body: { sealedClusterKey: 'sealed', storage: { endpoints: ['https://a:2379'] } },
    });
  });

  it('obtains nothing while a member has an alarm, because its record could not be written', async () => {
    expect(await join([member('a', ['NOSPACE']), member('b', ['CORRUPT'])])).toMatchObject({
      code: 409,
      body: {
        message:
          'etcd has the alarm NOSPACE (a), CORRUPT (b) and rejects writes, so no server can join: end the alarm first (`oarlock server list`), and join then; nothing was changed',
      },
    });
  });
});
