import { setMaxListeners } from 'node:events';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { ChangeBatch } from '@oarlock/spi/storage';
import { Storage } from '@oarlock/spi/storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { MemoryStorage } from '../src/memory-storage.ts';
import plugin from '../src/plugin.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const put = (storage: MemoryStorage, key: string, value: Uint8Array = bytes(key)) => storage.commit([{ key, value }], []);

describe('MemoryStorage', () => {
  it('returns the written bytes without a copy', async () => {
    const storage = new MemoryStorage();
    const value = bytes('1');
    const batches = storage.watch('', { after: 0, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await batches.next();
    await put(storage, '/a', value);
    expect((await storage.get('/a')).entry?.value).toBe(value);
    expect((await storage.range({ prefix: '/' })).entries[0]?.value).toBe(value);
    const [change] = (await batches.next()).value?.changes ?? [];
    expect(change?.type === 'put' && change.entry.value).toBe(value);
  });

  it('delivers the commits of one event loop turn as one batch, shared by all watches of a prefix', async () => {
    const storage = new MemoryStorage();
    const signal = new AbortController().signal;
    const watches = ['/a/', '/a/', '/'].map((prefix) => storage.watch(prefix, { after: 0, signal })[Symbol.asyncIterator]());
    for (const watch of watches) await watch.next();
    await Promise.all([put(storage, '/a/1'), put(storage, '/a/2'), put(storage, '/b/1')]);
    const [one, two, all] = await Promise.all(watches.map(async (watch) => (await watch.next()).value as ChangeBatch));
    expect(one?.changes).toHaveLength(2);
    expect(one).toBe(two);
    expect(all?.changes).toHaveLength(3);
    expect([one?.revision, all?.revision]).toEqual([3, 3]);
  });

  it('compacts automatically by number and bytes, and frees the compacted history', async () => {
    const few = new MemoryStorage({ historyChanges: 1000 });
    for (let at = 0; at < 5000; at += 1) {
      await put(few, `/k${at % 10}`);
      if (at % 3 === 0) await few.commit([{ key: `/k${at % 10}`, value: null }], []);
    }
    expect(few.stats.history).toBe(1000);
    await expect(few.get('/k1', { revision: few.stats.compacted - 1 })).rejects.toMatchObject({ code: 'Compacted' });
    expect((await few.range({ prefix: '/', revision: few.stats.compacted })).entries.length).toBeGreaterThan(0);
    expect(few.stats.compacted).toBeGreaterThan(few.stats.revision - 1001);

    const small = new MemoryStorage({ historyBytes: 1024 * 1024 });
    for (let at = 0; at < 1000; at += 1) await put(small, '/k', new Uint8Array(10_000));
    expect(small.stats.historyBytes).toBeLessThanOrEqual(1024 * 1024);
    expect(small.stats.history).toBeGreaterThan(90);

    const gone = new MemoryStorage();
    for (let at = 0; at < 5000; at += 1) await put(gone, `/k${at}`);
    for (let at = 0; at < 5000; at += 1) await gone.commit([{ key: `/k${at}`, value: null }], []);
    await gone.compact(gone.stats.revision);
    expect(gone.stats).toMatchObject({ keys: 0, history: 0, historyBytes: 0 });
  });

  it('keeps one deadline per key, for any number of writes', async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    for (let at = 0; at < 1000; at += 1) {
      await storage.commit([{ key: `/k${at % 3}`, value: bytes('x'), ttlSeconds: 10 + (at % 7) }], []);
      await clock.advance(100);
    }
    expect(storage.stats.expiring).toBe(3);
    expect(clock.pending).toBe(1);
    await clock.advance(20_000);
    expect(storage.stats).toMatchObject({ expiring: 0, keys: 0 });
    expect(clock.pending).toBe(0);
  });

  it('releases a watch that ended', async () => {
    const storage = new MemoryStorage();
    const abort = new AbortController();
    setMaxListeners(0, abort.signal);
    for (let at = 0; at < 100; at += 1) storage.watch(`/${at % 10}`, { after: 0, signal: abort.signal });
    expect(storage.stats.watches).toBe(100);
    abort.abort();
    expect(storage.stats.watches).toBe(0);
  });

  it('is unavailable after stop', async () => {
    const storage = new MemoryStorage();
    const next = storage.watch('/', { after: 0, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await next.next();
    const waiting = next.next();
    await storage.stop();
    await expect(waiting).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(put(storage, '/a')).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(storage.get('/a')).rejects.toMatchObject({ code: 'Unavailable' });
  });

  it('rejects a time to live that is not a positive integer', async () => {
    const storage = new MemoryStorage();
    for (const ttlSeconds of [0, -1, 1.5, Number.NaN])
      await expect(storage.commit([{ key: '/a', value: bytes('1'), ttlSeconds }], [])).rejects.toBeInstanceOf(TypeError);
    expect(storage.stats.revision).toBe(0);
  });
});

describe('plugin', () => {
  it('is composed, configured and measured', async () => {
    const host = new PluginHost().add({ plugin, config: { historyChanges: 2000 } });
    await host.start();
    const storage = host.get(Storage);
    await storage.commit([{ key: '/a', value: bytes('1') }], []);
    expect(storage.traits).toEqual({ durable: false, shared: false, maxValueBytes: 1.5 * 1024 * 1024 });
    expect(await host.plugins[0]?.metrics.getSingleMetricAsString('oarlock_storage_memory_keys')).toContain(
      'oarlock_storage_memory_keys 1',
    );
    await host.stop();
  });

  it('rejects unknown config keys', () => {
    expect(new PluginHost().add({ plugin, config: { historychanges: 1 } }).check()).toMatchObject([{ code: 'ConfigInvalid' }]);
    expect(new PluginHost().add({ plugin, config: { historyChanges: 1 } }).check()).toMatchObject([{ code: 'ConfigInvalid' }]);
  });
});
