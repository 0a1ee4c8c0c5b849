import { silentLogger } from '@oarlock/primitives/logger';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';
import { ServerRegistry, type ServerRecord } from '../../src/servers/server-registry.ts';
import { sharedStorage } from './shared-storage.ts';

const record: ServerRecord = {
  ...{ name: 'server-a', url: 'https://10.0.0.1:6443', version: 'v1.36.0', startedAt: '2026-01-01T00:00:00Z', keysGeneration: 1 },
  ...{ trustedCAs: [], frontProxyCAs: [] },
};

it('a server starts over a full storage, and registers itself when the storage has space', async () => {
  const clock = new FakeClock();
  const storage = sharedStorage(clock);
  let isFull = true;
  const limited: StorageDriver = {
    ...storage,
    commit: async (...args) => {
      if (isFull) throw new StorageError('Full', 'etcdserver: mvcc: database space exceeded');
      return storage.commit(...args);
    },
  };
  const registry = new ServerRegistry({ storage: limited, clock, log: silentLogger });
  await registry.register(record);
  expect(await registry.list()).toEqual([]);
  isFull = false;
  await clock.advance(5_000);
  expect(await registry.list()).toEqual([{ ...record, ready: true }]);
  await registry.stop();
});
