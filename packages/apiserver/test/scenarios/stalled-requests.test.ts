import { once } from 'node:events';
import { connect as connectHttp2, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { InFlightCounter } from '../../src/handler-chain/in-flight-counter.ts';
import { configMap, encoded, frame } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { closedByReason, dribble, rawTls, readToEnd } from '../support/raw-connections.ts';
import { startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const deadlineMs = 150;
let keys: TestKeys;
let server: TestServer;
let stopClients: (() => void)[] = [];
beforeAll(async () => {
  keys = await testKeys();
});
afterEach(async () => {
  for (const stop of stopClients) stop();
  stopClients = [];
  await server.stop();
});
const start = async (limits: NonNullable<ServerSettings['limits']>, settings: ServerSettings = {}) => {
  server = await startServer({ keys, limits, ...settings });
};

describe('a request body that stalls', () => {
  it.each(['http/1.1', 'h2'] as const)('over %s is answered 504, and releases its place', async (protocol) => {
    const inFlight = new InFlightCounter();
    await start({ bodyTimeoutMs: deadlineMs }, { inFlight });
    let answer: string;
    if (protocol === 'h2') {
      const stream = server
        .session()
        .request({ ':method': 'POST', ':path': maps, 'content-type': 'application/json' }, { endStream: false });
      stream.write('{"kind"');
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
      answer = String(headers[':status']);
      stream.resume();
      await once(stream, 'close');
      expect(stream.rstCode).toBe(constants.NGHTTP2_NO_ERROR);
    } else {
      const socket = await rawTls(server, { protocol });
      socket.write(`POST ${maps} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"kind"`);
      answer = await readToEnd(socket);
    }
    expect(answer).toMatch(/^(HTTP\/1\.1 )?504/);
    expect(await closedByReason(server)).toEqual({ 'body-timeout': 1 });
    expect(inFlight.mutating).toBe(0);
  });

  it('releases its place at the request timeout, although it makes progress', async () => {
    const inFlight = new InFlightCounter();
    await start({}, { inFlight, requestTimeoutMs: 2 * deadlineMs });
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(`POST ${maps} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n`);
    dribble(socket, Buffer.from(' '), deadlineMs / 10);
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 504 /);
    expect(inFlight.mutating).toBe(0);
  });
});

describe('a response that the client does not receive', () => {
  const items = Array.from({ length: 3000 }, (_, i) => encoded(configMap(`m-${i}`, { data: { text: 'x'.repeat(1000) } })));
  const ended = (stream: ClientHttp2Stream) =>
    new Promise<void>((resolve) => {
      stream.on('error', () => undefined);
      stream.once('close', () => resolve());
    });
  const zeroWindow = (): ClientHttp2Session => {
    const session = connectHttp2(`https://127.0.0.1:${server.port}`, { ca: keys.caBundle, settings: { initialWindowSize: 0 } });
    session.on('error', () => undefined);
    stopClients.push(() => session.destroy());
    return session;
  };

  it('is reset after the response timeout: an object over HTTP/2 with a window of zero', async () => {
    await start({ responseTimeoutMs: deadlineMs });
    server.pipeline.object(configMap('a'));
    const stream = zeroWindow().request({ ':path': `${maps}/a` });
    await ended(stream);
    expect(stream.rstCode).not.toBe(constants.NGHTTP2_NO_ERROR);
    expect(await closedByReason(server)).toEqual({ 'response-timeout': 1 });
  });

  it.each(['list', 'watch'])('is reset if it makes no progress: a %s over HTTP/2 with a window of zero', async (verb) => {
    await start({ stalledStreamTimeoutMs: deadlineMs });
    if (verb === 'list') server.pipeline.list(items);
    else
      server.pipeline.watch(async function* () {
        yield items.map((item) => frame('ADDED', item));
        await new Promise(() => undefined);
      });
    const stream = zeroWindow().request({ ':path': verb === 'list' ? maps : `${maps}?watch=1` });
    await ended(stream);
    expect(await closedByReason(server)).toEqual({ 'stalled-stream': 1 });
  });

  it('closes an HTTP/1.1 connection that is not read', async () => {
    const clock = new FakeClock();
    await start({ responseTimeoutMs: 5_000 }, { clock });
    const length = 32 * 1024 * 1024;
    server.pipeline.object(configMap('a', { data: { text: 'x'.repeat(length) } }));
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(`GET ${maps}/a HTTP/1.1\r\nHost: a\r\n\r\n`);
    await once(socket, 'data');
    socket.pause();
    await clock.advance(7_000);
    expect(await closedByReason(server)).toEqual({ 'response-timeout': 1 });
    expect((await readToEnd(socket)).length).toBeLessThan(length);
  });
});
