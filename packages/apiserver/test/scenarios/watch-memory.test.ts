import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { ClientHttp2Stream } from 'node:http2';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rejectionOf, settlePromises, TestServer, configMap, type Watching } from '../support/pipeline-fixture.ts';
import { startServer, type TestServer as HttpTestServer } from '../support/start-server.ts';
import type { Pipeline } from '../../src/pipeline/pipeline.ts';
import { registerWatchCacheMetrics } from '../../src/watch-cache/watch-cache-metrics.ts';
import { watchCacheLimits } from '../../src/watch-cache/watch-cache-limits.ts';

const mebibyte = 1024 * 1024;
/** Just below the limit of a ConfigMap's data. */
const payloadBytes = 1_000_000;
/** Writes three times the bound of the event ring, and to each stalled watch more than the bound of a watcher and of its connection. */
const updates = 208;
const objects = 8;
const stalledPerProtocol = 6;
/** Encoded and decoded copies of current objects, buffers of connections, and garbage that was not collected yet. */
const maxResidentGrowth = 1_024 * mebibyte;

let core: TestServer;
let server: HttpTestServer<Pipeline>;
let stalled: (IncomingMessage | ClientHttp2Stream)[] = [];
beforeEach(async () => {
  core = await TestServer.start();
  server = await startServer({}, core.pipeline);
});
afterEach(async () => {
  for (const each of stalled.splice(0)) each.destroy();
  await server.stop();
  await core.stop();
});

const path = (name: string) =>
  `/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}&resourceVersion=0`;
const nameOf = (at: number) => `large-${at % objects}`;
const large = (at: number) => configMap(nameOf(at), { at: String(at), payload: String.fromCharCode(97 + (at % 26)).repeat(payloadBytes) });

async function update(at: number): Promise<void> {
  const body = JSON.stringify(large(at));
  const { code } = await server.http2('PUT', `/api/v1/namespaces/default/configmaps/${nameOf(at)}`, { body });
  expect(code).toBe(200);
}

/** Opens a watch over HTTP/1.1 whose client never reads the body. */
const stalledHttp1 = (name: string) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    httpsRequest({ host: '127.0.0.1', port: server.port, path: path(name), ca: server.keys.caBundle, agent: false }, (response) => {
      response.on('error', () => undefined); // the server aborts the response
      response.pause();
      resolve(response);
    })
      .on('error', reject)
      .end();
  });

/** Opens a watch over HTTP/2, with a connection of its own, whose client never reads the body. */
const stalledHttp2 = (name: string) =>
  new Promise<ClientHttp2Stream>((resolve, reject) => {
    const stream = server.session().request({ ':path': path(name) });
    stream.on('error', reject);
    stream.once('response', () => {
      stream.off('error', reject).on('error', () => undefined);
      stream.pause();
      resolve(stream);
    });
  });

/** Reads the sequence numbers of all events of a watch over HTTP/1.1, as they arrive. */
function fastReader(): Promise<{ readonly seen: readonly number[]; close(): void }> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      {
        host: '127.0.0.1',
        port: server.port,
        path: '/api/v1/configmaps?watch=1&resourceVersion=0',
        ca: server.keys.caBundle,
        agent: false,
      },
      (response) => {
        const seen: number[] = [];
        let line = '';
        response.setEncoding('utf8').on('data', (text: string) => {
          line += text;
          if (!text.includes('\n')) return;
          for (let end = line.indexOf('\n'); end >= 0; end = line.indexOf('\n')) {
            const { object } = JSON.parse(line.slice(0, end)) as { object: { data: { at: string } } };
            seen.push(Number(object.data.at));
            line = line.slice(end + 1);
          }
        });
        response.on('error', () => undefined); // closed by the test
        resolve({ seen, close: () => request.destroy() });
      },
    );
    request.on('error', reject).end();
  });
}

async function terminatedWatchers(): Promise<number> {
  const registry = new Registry();
  registerWatchCacheMetrics(registry, core.pipeline);
  const text = await registry.metrics();
  return Number(/^apiserver_terminated_watchers_total\{group="",resource="configmaps"\} (\d+)$/m.exec(text)?.[1]);
}

describe('updates of large objects with stalled watches', () => {
  it('keep the accounted memory within its bounds and do not disturb a fast watch', async () => {
    for (let at = 0; at < objects; at++) await core.create('configmaps', configMap(nameOf(at), { at: String(at) }));
    const first = (await core.list('configmaps')).metadata.resourceVersion ?? '';
    const [fast, inProcess] = [await fastReader(), await core.watch('configmaps', { resourceVersion: first })];
    stalled = await Promise.all(
      Array.from({ length: stalledPerProtocol }, (_, at) => [stalledHttp1(nameOf(at)), stalledHttp2(nameOf(at))]).flat(),
    );
    const residentBefore = process.memoryUsage().rss;
    const highest = { rings: 0, watchers: 0, pendingWrites: 0, resident: 0 };
    for (let at = objects; at < objects + updates; at++) {
      await update(at);
      const { rings, watchers, pendingWrites } = core.pipeline.watchCacheMemory;
      for (const buffer of [rings, watchers, pendingWrites]) expect(buffer.bytes).toBeLessThanOrEqual(buffer.maxBytes);
      highest.rings = Math.max(highest.rings, rings.bytes);
      highest.watchers = Math.max(highest.watchers, watchers.bytes);
      highest.resident = Math.max(highest.resident, process.memoryUsage().rss - residentBefore);
    }
    await expect.poll(() => fast.seen.length).toBe(objects + updates);
    expect([...fast.seen.slice(objects)]).toEqual(Array.from({ length: updates }, (_, at) => objects + at));

    expect(highest.rings).toBeLessThanOrEqual(watchCacheLimits.ringBytes);
    // the attack reached the bounds
    expect(highest.rings).toBeGreaterThan(watchCacheLimits.ringBytes - 2 * mebibyte);
    expect(highest.watchers).toBeGreaterThan(watchCacheLimits.watcherBytes - 2 * mebibyte);
    expect(highest.resident).toBeLessThan(maxResidentGrowth);

    // the stalled watchers were terminated, and their history is gone
    expect(await terminatedWatchers()).toBeGreaterThanOrEqual(stalled.length + 1);
    expect((await rejectionOf(inProcess.next())).status).toMatchObject({ code: 410, reason: 'Expired' });
    // their blocked responses were aborted: only the fast watch is left
    await expect.poll(() => server.handler.active).toBe(1);
    expect(await expiredAt(first)).toContain('too old resource version');

    fast.close();
    for (const each of stalled.splice(0)) each.destroy();
    await expect.poll(() => core.pipeline.watchCacheMemory.watchers.bytes).toBe(0);
  });

  it('terminate watches that together exceed the bound, although each holds only one event', async () => {
    const watches = 80;
    const created = await core.create('configmaps', configMap('marker'));
    const resourceVersion = created.metadata?.resourceVersion ?? '';
    for (let at = 0; at < watches; at++)
      await core.watch('configmaps', { resourceVersion, fieldSelector: `metadata.name=single-${at}` }, { namespace: 'default' });
    const payload = 'x'.repeat(payloadBytes);
    for (let at = 0; at < watches; at++) await core.create('configmaps', configMap(`single-${at}`, { payload }));
    await settlePromises();
    for (let at = 0; at < watches; at++) await core.update('configmaps', configMap(`single-${at}`, { payload, changed: 'true' }));
    await settlePromises();
    const { watchers } = core.pipeline.watchCacheMemory;
    expect(watchers.bytes).toBeLessThanOrEqual(watchers.maxBytes);
    expect(watchers.bytes).toBeGreaterThan(watchers.maxBytes - 4 * mebibyte);
    expect(await terminatedWatchers()).toBe(Math.ceil((watches * 3 * payloadBytes - watchers.maxBytes) / (3 * payloadBytes)));
  });
});

describe('a resumed watch', () => {
  it('receives more recent events than may wait for one watcher', async () => {
    const resumed = 24;
    const created = await core.create('configmaps', configMap(nameOf(0)));
    for (let at = 0; at < resumed; at++) await core.update('configmaps', large(at * objects));
    await settlePromises();
    const watch = await core.watch('configmaps', { resourceVersion: created.metadata?.resourceVersion ?? '' });
    expect(core.pipeline.watchCacheMemory.watchers.bytes).toBeGreaterThan(watchCacheLimits.watcherBytes);
    await core.update('configmaps', large(resumed * objects));
    await settlePromises();
    const seen: number[] = [];
    while (seen.length <= resumed) {
      const frame = await watch.next();
      if (frame === undefined) break;
      seen.push(Number((frame.item.object as { data?: { at?: string } }).data?.at));
    }
    expect(seen).toEqual(Array.from({ length: resumed + 1 }, (_, at) => at * objects));
    await watch.close();
    expect(core.pipeline.watchCacheMemory.watchers.bytes).toBe(0);
  });
});

async function expiredAt(resourceVersion: string): Promise<string> {
  const late: Watching = await core.watch('configmaps', { resourceVersion });
  return (await rejectionOf(late.next())).message;
}
