import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '@oarlock/primitives/logger';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { Codec } from '../../src/watch-cache/item.ts';
import { WatchCache } from '../../src/watch-cache/watch-cache.ts';
import { TestClock } from '../support/pipeline-fixture.ts';

describe('waiting until the cache is fresh', () => {
  let storage: MemoryStorage;
  let cache: WatchCache;
  let requests: number;
  let behind: number;
  let failure: Error | undefined;

  beforeEach(async () => {
    const clock = new TestClock();
    storage = new MemoryStorage({ clock });
    [requests, behind, failure] = [0, 0, undefined];
    const driver: StorageDriver = {
      traits: storage.traits,
      get: (key, options) => storage.get(key, options),
      range: (options) => storage.range(options),
      commit: (writes, expected) => storage.commit(writes, expected),
      watch: (prefix, options) => storage.watch(prefix, options),
      compact: (revision) => storage.compact(revision),
      requestProgress: () => {
        requests += 1;
        return storage.requestProgress();
      },
      currentRevision: () => {
        if (failure !== undefined) throw failure;
        return storage.currentRevision() + behind;
      },
    };
    const resource = { name: 'configmaps', namespaced: true, codec: new Codec('v1', 'ConfigMap') };
    cache = new WatchCache({ storage: driver, resources: [resource], clock, log: silentLogger });
    await cache.start();
    requests = 0;
  });
  afterEach(() => cache.stop());

  it('needs no request if storage knows its revision and the cache has reached it', () => {
    expect(cache.waitUntilFresh()).toBe(cache.revision);
    expect(requests).toBe(0);
  });

  it('requests the revision of storage if the cache is behind it', async () => {
    behind = 1;
    const fresh = cache.waitUntilFresh();
    expect(fresh).toBeInstanceOf(Promise);
    expect(await fresh).toBe(cache.revision);
    expect(requests).toBe(1);
  });

  it('sees a commit whose event the cache has not received', async () => {
    const before = cache.revision;
    const value = Buffer.from('{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"b"}}');
    const committing = storage.commit([{ key: '/registry/configmaps/b/a', value }], []);
    expect(cache.revision).toBe(before);
    const fresh = await cache.waitUntilFresh();
    const commit = await committing;
    expect(commit).toMatchObject({ ok: true, revision: fresh });
    expect(cache.resource('configmaps').get('b/a')?.object.metadata).toMatchObject({ name: 'a', resourceVersion: String(fresh) });
  });

  it('fails as storage does', () => {
    failure = new StorageError('Unavailable', 'the disk is gone');
    expect(() => cache.waitUntilFresh()).toThrow(expect.objectContaining({ name: 'StatusError', code: 504 }));
  });
});
