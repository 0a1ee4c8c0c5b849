import { getEventListeners, once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storageContract } from '@oarlock/spi/storage/contract';
import type { StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it, vi } from 'vitest';
import { RemoteStorage } from '../../../src/workers/storage/remote-storage.ts';
import { RemoteStorageServer } from '../../../src/workers/storage/remote-storage-server.ts';
import { request, response, watchWindowBytes } from '../../../src/workers/storage/storage-messages.ts';

/** Two connected sockets, as the pipe between two processes. */
async function socketPair(): Promise<readonly [Socket, Socket]> {
  const directory = mkdtempSync(join(tmpdir(), 'oarlock-pair-'));
  const server = createServer();
  const path = join(directory, 's');
  server.listen(path);
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect(path);
  await once(client, 'connect');
  const [served] = await accepted;
  server.close();
  rmSync(directory, { recursive: true });
  return [client, served];
}

async function remoteStorage(driver: StorageDriver): Promise<{ remote: RemoteStorage; server: RemoteStorageServer }> {
  const [client, served] = await socketPair();
  const server = new RemoteStorageServer(driver, served);
  return { remote: new RemoteStorage(client, driver.traits, { skips: driver.skipTo !== undefined }), server };
}

const withOverrides = (memory: MemoryStorage, overrides: Partial<StorageDriver>): StorageDriver => ({
  traits: memory.traits,
  get: (key) => memory.get(key),
  range: (options) => memory.range(options),
  commit: (writes, expected) => memory.commit(writes, expected),
  watch: (prefix, options) => memory.watch(prefix, options),
  requestProgress: () => memory.requestProgress(),
  compact: (revision) => memory.compact(revision),
  ...overrides,
});

const lagBytes = 4 * 1024 * 1024;

storageContract(
  'storage of another process',
  async () => {
    const clock = new FakeClock();
    const driver = new MemoryStorage({ clock, watchBytes: lagBytes });
    const { remote } = await remoteStorage(driver);
    const dispose = async () => {
      await remote.stop();
      await driver.stop();
    };
    return {
      driver: remote,
      dispose,
      tick: (ms) => clock.advance(ms),
      cost: () => driver.stats.steps,
      lagBytes: lagBytes + watchWindowBytes,
    };
  },
  { runs: 50 },
);

/** A frame as `FrameStream` sends it. */
function frame(kind: number, payload: Buffer, length = payload.length): Buffer {
  const header = Buffer.alloc(9);
  header.writeUInt32LE(length, 0);
  header[4] = kind;
  header.writeUInt32LE(1, 5);
  return Buffer.concat([header, payload]);
}
const text = (value: string) => Buffer.concat([Buffer.from(new Uint32Array([value.length]).buffer), Buffer.from(value)]);

describe('a process that sends malformed messages', () => {
  it.each<readonly [string, Buffer]>([
    ['a watch without a prefix', frame(request.watch, Buffer.alloc(0))],
    ['a watch whose prefix is longer than the message', frame(request.watch, Buffer.from([255, 255, 255, 255]))],
    ['a watch without a revision', frame(request.watch, text('/k'))],
    ['an acknowledgement without a number', frame(request.acknowledge, Buffer.alloc(3))],
    ['a message of 4 GiB', frame(request.commit, Buffer.alloc(0), 0xffffffff)],
  ])('loses its connection to the storage, and harms no other: %s', async (_what, bytes) => {
    const driver = new MemoryStorage({ clock: new FakeClock() });
    const [client, served] = await socketPair();
    const server = new RemoteStorageServer(driver, served);
    const closed = once(client, 'close');
    client.on('error', () => undefined);
    client.write(bytes);
    client.resume();
    await closed;
    server.close();
    expect(await driver.commit([{ key: '/k', value: Buffer.from('x') }], [])).toMatchObject({ ok: true });
    await driver.stop();
  });

  it.each<readonly [string, Buffer]>([
    ['an unknown request', frame(200, Buffer.alloc(0))],
    ['a commit of four billion writes', frame(request.commit, Buffer.from([255, 255, 255, 255]))],
    ['a get whose key is longer than the message', frame(request.get, Buffer.from([255, 0, 0, 0, 1]))],
    ['a range without a limit', frame(request.range, Buffer.concat([text('/k'), Buffer.from([0]), text('')]))],
  ])('receives an error for a call: %s', async (_what, bytes) => {
    const driver = new MemoryStorage({ clock: new FakeClock() });
    const [client, served] = await socketPair();
    const server = new RemoteStorageServer(driver, served);
    client.write(bytes);
    const [answer] = (await once(client, 'data')) as [Buffer];
    expect(answer[4]).toBe(response.error);
    client.destroy();
    server.close();
    await driver.stop();
  });

  it('ends the storage of a worker', async () => {
    const [client, served] = await socketPair();
    const remote = new RemoteStorage(client, new MemoryStorage({ clock: new FakeClock() }).traits, { skips: false });
    const waiting = remote.get('/k');
    served.write(frame(response.health, Buffer.from([255, 255, 255, 255])));
    await expect(waiting).rejects.toMatchObject({ code: 'Unavailable' });
    expect(remote.checkHealth()).toMatchObject({ healthy: false });
    served.destroy();
  });
});

describe('RemoteStorage', () => {
  it('returns a range that is larger than a message', async () => {
    const driver = new MemoryStorage({ clock: new FakeClock() });
    const { remote } = await remoteStorage(driver);
    const value = Buffer.alloc(1_000_000, 'x');
    const keys = Array.from({ length: 20 }, (_, index) => `/k/${String(index).padStart(2, '0')}`);
    for (const key of keys) await remote.commit([{ key, value }], []);
    const all = await remote.range({ prefix: '/k/' });
    expect(all.entries.map(({ key }) => key)).toEqual(keys);
    expect(all).toMatchObject({ more: false, remaining: 0, revision: 20 });
    const some = await remote.range({ prefix: '/k/', limit: 18 });
    expect(some.entries).toHaveLength(18);
    expect(some).toMatchObject({ more: true, remaining: 2 });
    await remote.stop();
    await driver.stop();
  });

  it('delivers a batch that is larger than a message as one batch', async () => {
    const driver = new MemoryStorage({ clock: new FakeClock() });
    const { remote } = await remoteStorage(driver);
    const value = Buffer.alloc(1_000_000, 'x');
    const abort = new AbortController();
    const writes = Array.from({ length: 12 }, (_, index) => ({ key: `/k/${index}`, value }));
    await remote.commit(writes, []);
    for await (const { changes, revision } of remote.watch('/k/', { after: 0, signal: abort.signal })) {
      if (changes.length === 0) continue;
      expect(changes).toHaveLength(12);
      expect(revision).toBe(1);
      abort.abort();
    }
    await remote.stop();
    await driver.stop();
  });

  it('limits what is sent to a slow reader, however often it has waited or received progress', async () => {
    const memory = new MemoryStorage({ clock: new FakeClock(), watchBytes: Number.POSITIVE_INFINITY });
    let sentChanges = 0;
    const signals: AbortSignal[] = [];
    const driver = withOverrides(memory, {
      watch: async function* (prefix, options) {
        signals.push(options.signal);
        for await (const batch of memory.watch(prefix, options)) {
          if (batch.changes.length === 0) yield batch;
          for (const change of batch.changes) {
            sentChanges += 1;
            yield { changes: [change], revision: change.type === 'put' ? change.entry.revision : change.revision };
          }
        }
      },
    });
    const { remote } = await remoteStorage(driver);
    const abort = new AbortController();
    const watch = remote.watch('/k/', { after: 0, signal: abort.signal })[Symbol.asyncIterator]();
    const nextBatch = async () => {
      const { value, done } = await watch.next();
      if (done === true) throw new Error('the watch ended');
      return value.changes.length;
    };
    // progress that the server has not sent must not count as read
    for (let index = 0; index < 10_000; index += 1) {
      await remote.requestProgress();
      await nextBatch();
    }
    const value = Buffer.alloc(watchWindowBytes / 4, 'x');
    const total = 24;
    for (let index = 0; index < total; index += 1) await remote.commit([{ key: `/k/${index}`, value }], []);
    let listeners = 0;
    for (let received = 0; received < total; received += await nextBatch()) {
      // four changes exceed the window, because each has a few bytes besides its value; the last one is being read
      const expected = Math.min(total, 4 + Math.max(0, received - 1));
      await vi.waitFor(() => expect(sentChanges).toBeGreaterThanOrEqual(expected), { interval: 1, timeout: 120_000 });
      // the answers follow the changes, so the server has sent them and waits
      for (let call = 0; call < 2; call += 1) await remote.get('/k/0');
      expect(sentChanges).toBe(expected);
      for (const signal of signals) listeners = Math.max(listeners, getEventListeners(signal, 'abort').length);
    }
    expect(listeners).toBeLessThan(4);
    abort.abort();
    await remote.stop();
    await memory.stop();
  });

  it('fails calls and watches with Unavailable when the connection ends', async () => {
    const driver = new MemoryStorage({ clock: new FakeClock() });
    const { remote, server } = await remoteStorage(driver);
    await remote.commit([{ key: '/k/1', value: Buffer.from('v') }], []);
    const watch = remote.watch('/k/', { after: 0, signal: new AbortController().signal })[Symbol.asyncIterator]();
    await watch.next();
    expect(remote.checkHealth()).toEqual({ healthy: true });
    const reading = (async () => {
      for (;;) if ((await watch.next()).done === true) return;
    })();
    server.close();
    await expect(reading).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(remote.get('/k/1')).rejects.toMatchObject({ code: 'Unavailable' });
    expect(remote.checkHealth()).toMatchObject({ healthy: false });
    await driver.stop();
  });

  it('reports the health of the storage', async () => {
    const memory = new MemoryStorage({ clock: new FakeClock() });
    let reason: string | undefined;
    const driver = withOverrides(memory, {
      checkHealth: () => (reason === undefined ? { healthy: true } : { healthy: false, reason }),
    });
    const { remote } = await remoteStorage(driver);
    reason = 'the disk is full';
    await remote.get('/k');
    expect(remote.checkHealth()).toEqual({ healthy: false, reason: 'the disk is full' });
    reason = undefined;
    await remote.get('/k');
    expect(remote.checkHealth()).toEqual({ healthy: true });
    await remote.stop();
    await memory.stop();
  });
});
