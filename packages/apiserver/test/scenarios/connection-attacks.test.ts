import { once } from 'node:events';
import { constants } from 'node:http2';
import type { Socket } from 'node:net';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { configMap, encoded, frame as watchFrame } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import {
  closed,
  closedByReason,
  dribble,
  encodeFrame,
  frameFlags,
  getHeaders,
  preface,
  rawTcp,
  rawTls,
  readToEnd,
  type Frame,
} from '../support/raw-connections.ts';
import { startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const deadlineMs = 150;
let keys: TestKeys;
let server: TestServer;
beforeAll(async () => {
  keys = await testKeys();
});
afterEach(() => server.stop());
const start = async (limits: NonNullable<ServerSettings['limits']>, settings: ServerSettings = {}) => {
  server = await startServer({ keys, limits, ...settings });
};

/** A handler that ends only when its client disconnects. */
const untilAborted = (signal: AbortSignal | undefined): Promise<never> =>
  new Promise((_, reject) => {
    const abort = () => reject(new Error('the client has disconnected'));
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort);
  });

class Gate {
  open: () => void = () => undefined;
  readonly passed = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** The head of a TLS record with a ClientHello of 512 bytes. */
const clientHello = Buffer.concat([Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]), Buffer.alloc(100)]);
const http2 = async () => {
  const socket = await rawTls(server, { protocol: 'h2' });
  socket.write(Buffer.concat([preface, encodeFrame({ type: 'settings' })]));
  return socket;
};

describe('a connection without a TLS handshake', () => {
  it.each([
    ['sends nothing', () => undefined],
    ['stalls in its first record', (socket: Socket) => void socket.write(clientHello)],
    ['sends the record byte by byte', (socket: Socket) => dribble(socket, clientHello.subarray(0, 100), deadlineMs / 10)],
  ])('that %s is closed after the handshake timeout', async (_, attack) => {
    await start({ handshakeTimeoutMs: deadlineMs });
    const socket = await rawTcp(server);
    attack(socket);
    await closed(socket);
    expect(await closedByReason(server)).toEqual({ 'handshake-timeout': 1 });
  });
});

describe('an HTTP/1.1 connection', () => {
  const partialHead = 'GET /version HTTP/1.1\r\nHost: a\r\nX-Filler: ';
  it('without a request is closed after the header timeout', async () => {
    await start({ headerTimeoutMs: deadlineMs });
    expect(await readToEnd(await rawTls(server, { protocol: 'http/1.1' }))).toBe('');
    expect(await closedByReason(server)).toEqual({ 'header-timeout': 1 });
  });

  it.each(['first', 'second'])('whose %s head stalls is answered 408 and closed', async (which) => {
    await start({ headerTimeoutMs: deadlineMs });
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    if (which === 'second') {
      socket.write('GET /version HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(socket, 'data');
    }
    socket.write(partialHead);
    expect(await readToEnd(socket)).toContain('HTTP/1.1 408 Request Timeout\r\n');
    expect(await closedByReason(server)).toEqual({ 'header-timeout': 1 });
  });

  it('that sends its head byte by byte is answered 408 and closed', async () => {
    await start({ headerTimeoutMs: deadlineMs });
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(partialHead);
    dribble(socket, Buffer.from('x'), deadlineMs / 10);
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('without a further request is closed after the idle timeout', async () => {
    await start({ idleTimeoutMs: deadlineMs });
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write('GET /version HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await closedByReason(server)).toEqual({ idle: 1 });
  });

  it('is closed if the client does not close its side', async () => {
    await start({ idleTimeoutMs: deadlineMs, closeTimeoutMs: deadlineMs });
    const socket = await rawTls(server, { protocol: 'http/1.1', allowHalfOpen: true });
    socket.write('GET /version HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(socket, 'data');
    await once(socket.resume(), 'end');
    dribble(socket, Buffer.from('\r\n'), deadlineMs / 10);
    await closed(socket);
    expect(await closedByReason(server)).toEqual({ idle: 1, 'close-timeout': 1 });
  });

  it('is destroyed if it pipelines more requests than a connection may have streams', async () => {
    await start({}, { maxStreamsPerConnection: 5 });
    let requests = 0;
    server.pipeline.answer = ({ signal }) => {
      requests += 1;
      return untilAborted(signal);
    };
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(`GET ${maps}/a HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(6));
    expect(await readToEnd(socket)).toBe('');
    expect(requests).toBeLessThanOrEqual(5);
  });
});

describe('an HTTP/2 connection', () => {
  it.each([
    ['nothing', Buffer.alloc(0)],
    ['half of the preface', preface.subarray(0, 10)],
    ['no SETTINGS after the preface', preface],
  ])('that sends %s is closed after the preface timeout', async (_, bytes) => {
    await start({ prefaceTimeoutMs: deadlineMs });
    const socket = await rawTls(server, { protocol: 'h2' });
    socket.write(bytes);
    await closed(socket);
    expect(await closedByReason(server)).toEqual({ 'preface-timeout': 1 });
  });

  it('that only sends PING is closed after the idle timeout, although it ignores GOAWAY', async () => {
    await start({ idleTimeoutMs: deadlineMs, closeTimeoutMs: deadlineMs });
    const socket = await http2();
    dribble(socket, encodeFrame({ type: 'ping', payload: Buffer.alloc(8) }), deadlineMs / 100);
    await closed(socket);
    expect(await closedByReason(server)).toMatchObject({ idle: 1 });
  });

  it('that only sends WINDOW_UPDATE is closed after the idle timeout', async () => {
    await start({ idleTimeoutMs: deadlineMs, closeTimeoutMs: deadlineMs });
    const socket = await http2();
    dribble(socket, encodeFrame({ type: 'windowUpdate', payload: Buffer.from([0, 0, 0, 1]) }), deadlineMs / 100);
    await closed(socket);
    expect(await closedByReason(server)).toMatchObject({ idle: 1 });
  });

  it('whose WINDOW_UPDATE frames exceed the largest window ends', async () => {
    await start({});
    const socket = await http2();
    socket.write(
      Buffer.concat(Array.from({ length: 3 }, () => encodeFrame({ type: 'windowUpdate', payload: Buffer.from([0x7f, 0xff, 0xff, 0xff]) }))),
    );
    await closed(socket);
  });

  it('whose client reads nothing of a large response does not keep the server from closing', async () => {
    await start({});
    server.pipeline.object(configMap('a', { data: { text: 'x'.repeat(2 ** 24) } }));
    const socket = await rawTls(server, { protocol: 'h2' });
    const window = Buffer.from([0x3f, 0xff, 0xff, 0xff]);
    socket.pause();
    socket.write(
      Buffer.concat([
        preface,
        encodeFrame({ type: 'settings', payload: Buffer.concat([Buffer.from([0, 4]), window]) }),
        encodeFrame({ type: 'windowUpdate', payload: window }),
        encodeFrame({ type: 'headers', flags: frameFlags.endHeaders | frameFlags.endStream, stream: 1, payload: getHeaders(`${maps}/a`) }),
      ]),
    );
    await vi.waitFor(() => expect(server.pipeline.requests).toHaveLength(1), { timeout: 120_000 });
    await server.stop();
    socket.destroy();
  });

  it('that stalls within a header block is closed after the idle timeout', async () => {
    await start({ idleTimeoutMs: deadlineMs });
    const socket = await http2();
    socket.write(encodeFrame({ type: 'headers', stream: 1, payload: getHeaders('/version') }));
    await closed(socket);
    expect(await closedByReason(server)).toMatchObject({ idle: 1 });
  });
});

describe('an HTTP/2 flood', () => {
  const request = (stream: number): Frame => ({
    type: 'headers',
    flags: frameFlags.endStream | frameFlags.endHeaders,
    stream,
    payload: getHeaders(`${maps}/a`),
  });
  const flood = (count: number, frames: (i: number) => readonly Frame[]) =>
    Buffer.concat(Array.from({ length: count }, (_, i) => frames(i).map(encodeFrame)).flat());

  it.each([
    ['PING', () => [{ type: 'ping', payload: Buffer.alloc(8) }]],
    ['SETTINGS', () => [{ type: 'settings' }]],
  ] as [string, () => Frame[]][])('of %s frames ends the connection', async (_, frames) => {
    await start({ controlFrameBurst: 100 });
    const socket = await http2();
    socket.write(flood(200, frames));
    await closed(socket);
    expect(await closedByReason(server)).toEqual({ 'control-frame-flood': 1 });
  });

  it.each([
    [
      'streams that the client resets (CVE-2023-44487)',
      { type: 'reset', payload: Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]) },
      { 'control-frame-flood': 1 },
    ],
    // Node's maxSessionInvalidFrames ends the connection
    ['streams that the server has to reset (CVE-2025-8671)', { type: 'windowUpdate', payload: Buffer.from([0x7f, 0xff, 0xff, 0xff]) }, {}],
  ] as [string, Frame, object][])('of %s ends the connection after the burst', async (_, attack, reasons) => {
    await start({});
    let requests = 0;
    server.pipeline.answer = ({ signal }) => {
      requests += 1;
      return untilAborted(signal);
    };
    const socket = await http2();
    const bytes = flood(20_000, (i) => [request(2 * i + 1), { ...attack, stream: 2 * i + 1 }]);
    for (let at = 0; at < bytes.length && !socket.destroyed; at += 16_384) socket.write(bytes.subarray(at, at + 16_384));
    await closed(socket);
    expect(requests).toBeLessThan(2_000);
    expect(await closedByReason(server)).toEqual(reasons);
  });

  it('of watches that the client resets ends the connection, also while other watches are open', async () => {
    await start({ controlFrameBurst: 10 });
    let watches = 0;
    const [opened, ended] = [new Gate(), new Gate()];
    server.pipeline.watch(async function* () {
      watches += 1;
      if (watches === 20) opened.open();
      yield [watchFrame('ADDED', encoded(configMap('a')))];
      await ended.passed;
    });
    const socket = await http2();
    const ids = Array.from({ length: 20 }, (_, i) => 2 * i + 1);
    const path = getHeaders(`${maps}?watch=1`);
    socket.write(Buffer.concat(ids.map((stream) => encodeFrame({ ...request(stream), payload: path }))));
    await opened.passed;
    const cancel = Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]);
    socket.write(Buffer.concat(ids.slice(0, 15).map((stream) => encodeFrame({ type: 'reset', stream, payload: cancel }))));
    await closed(socket);
    expect(await closedByReason(server)).toEqual({ 'control-frame-flood': 1 });
    expect((await server.http2('GET', '/version')).code).toBe(200);
    ended.open();
  });

  it('of CONTINUATION frames ends the connection', async () => {
    await start({});
    const socket = await http2();
    socket.write(encodeFrame({ type: 'headers', stream: 1, payload: getHeaders('/version') }));
    socket.write(flood(1_000, () => [{ type: 'continuation', stream: 1, payload: Buffer.from([0x00, 1, 0x61, 1, 0x62]) }]));
    await closed(socket);
    expect(server.pipeline.requests).toEqual([]);
  });

  it('of empty DATA frames ends the connection', async () => {
    await start({});
    const socket = await http2();
    socket.write(encodeFrame({ ...request(1), flags: frameFlags.endHeaders }));
    socket.write(flood(20_000, () => [{ type: 'data', stream: 1 }]));
    await closed(socket);
  });
});

describe('a request head that is too large', () => {
  const filler = 'x'.repeat(97 * 1024);
  it('is answered 431 over HTTP/1.1', async () => {
    await start({});
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(`GET /version HTTP/1.1\r\nHost: a\r\nX-Filler: ${filler}\r\n\r\n`);
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 431 /);
  });

  it('is answered 431 over HTTP/1.1 if it has too many headers', async () => {
    await start({});
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write(`GET /version HTTP/1.1\r\nHost: a\r\n${'X-A: b\r\n'.repeat(256)}\r\n`);
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1\.1 431 /);
  });

  it.each([
    ['a header of 97 KiB', { 'x-filler': filler }],
    ['257 headers', Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`x-${i}`, 'a']))],
  ])('is a reset stream over HTTP/2: %s', async (_, headers) => {
    await start({});
    await expect(server.http2('GET', '/version', { headers })).rejects.toThrow(/reset|closed|ENHANCE_YOUR_CALM/i);
    expect((await server.http1('GET', '/version')).code).toBe(200);
  });
});
