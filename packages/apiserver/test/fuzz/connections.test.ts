import { setImmediate as turn } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Dice } from '../support/arbitrary-objects.ts';
import { configMap, encoded } from '../support/fake-pipeline.ts';
import { encodeFrame, getHeaders, preface, rawTls, type Frame } from '../support/raw-connections.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

/** `OARLOCK_FUZZ_CONNECTIONS=10000 OARLOCK_FUZZ_SEED=7`. An error that a listener throws fails the test run. */
const connections = Number(process.env['OARLOCK_FUZZ_CONNECTIONS'] ?? '120');
const dice = new Dice(Number(process.env['OARLOCK_FUZZ_SEED'] ?? '1'));
const concurrent = 8;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.pipeline.answer = async () => {
    for (let turns = dice.below(20); turns > 0; turns--) await turn();
    if (dice.below(4) === 0) throw new Error('failed');
    const text = 'x'.repeat(dice.below(5) === 0 ? 300_000 : 10);
    return { kind: 'object', code: 200, item: encoded(configMap('a', { data: { text } })), warnings: ['ü\n"'] };
  };
});
afterAll(() => server.stop());

const maps = '/api/v1/namespaces/default/configmaps';
const paths = [
  `${maps}/a`,
  `${maps}/a?timeout=1ms`,
  '/livez',
  '/openapi/v2',
  '/%zz',
  '*',
  '//',
  '/api/v1/namespaces/a/pods/b/exec?command=x',
];
const upgrades = ['websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13', 'SPDY/3.1', 'h2c'];
const bodies = [
  'Content-Length: 2\r\n\r\n{}',
  'Content-Length: 999\r\n\r\n{}',
  'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
  'Transfer-Encoding: chunked\r\n\r\nzz\r\n',
];

/** Requests, which are sent together or one after another, before the responses of the earlier ones. */
const requests: readonly (() => string)[] = [
  () => `GET ${dice.pick(paths)} HTTP/1.1\r\nHost: a\r\n\r\n`,
  () =>
    `GET ${dice.pick(paths)} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${dice.pick(upgrades)}\r\n\r\n${dice.pick(['', '\u0081\u0080'])}`,
  () => `HEAD ${dice.pick(paths)} HTTP/1.1\r\nHost: a\r\nExpect: ${dice.pick(['100-continue', 'other'])}\r\n\r\n`,
  () => `POST ${dice.pick(paths)} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${dice.pick(bodies)}`,
  () => `GET ${dice.pick(paths)} HTTP/1.0\r\nAccept: ${dice.pick(['application/yaml', '\u00ff'])}\r\nAudit-ID: \u00ff\r\n\r\n`,
  () => dice.pick(['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 'garbage\r\n\r\n', '\r\n']),
];

/** Those that leave the connection open for the next one. */
const common = requests.slice(0, 3);

const number = (value: number) => Buffer.from([0, 0, 0, value]);
/** HTTP/2 frames for a new stream or for one of the earlier ones. */
const frames: readonly ((stream: number) => Frame)[] = [
  (stream) => ({ type: 'headers', stream, flags: dice.pick([4, 5]), payload: getHeaders(dice.pick(paths)) }),
  (stream) => ({ type: 'data', stream, flags: dice.pick([0, 1]), payload: Buffer.from('{}') }),
  (stream) => ({ type: 'reset', stream, payload: number(dice.pick([0, 1, 2, 5, 7, 8, 99])) }),
  (stream) => ({ type: 'windowUpdate', stream: dice.pick([0, stream]), payload: number(dice.pick([0, 1, 255])) }),
  () => ({ type: 'settings', payload: dice.pick([Buffer.alloc(0), Buffer.from([0, 4, 0, 0, 0, 0])]) }),
  () => ({ type: 'ping', payload: Buffer.alloc(dice.pick([7, 8, 8, 8])) }),
  (stream) => ({ type: 'continuation', stream, flags: 4, payload: Buffer.alloc(2) }),
];

async function http1(): Promise<TLSSocket> {
  const socket = await rawTls(server, { protocol: 'http/1.1', allowHalfOpen: dice.below(3) === 0 });
  for (let parts = 1 + dice.below(3); parts > 0 && socket.writable; parts--) {
    const sent = Array.from({ length: 1 + dice.below(3) }, () => dice.pick(dice.below(3) === 0 ? requests : common)()).join('');
    socket.write(Buffer.from(sent, 'latin1'));
    await turn();
  }
  return socket;
}

async function http2(): Promise<TLSSocket> {
  const socket = await rawTls(server, { protocol: 'h2' });
  socket.write(Buffer.concat([preface, encodeFrame({ type: 'settings' })]));
  let next = 1;
  for (let count = 2 + dice.below(8); count > 0 && socket.writable; count--) {
    const frame = dice.pick(frames)(dice.pick([next, Math.max(1, next - 2)]));
    if (frame.type === 'headers') next += 2;
    socket.write(encodeFrame(frame));
    if (dice.below(2) === 0) await turn();
  }
  return socket;
}

it('no sequence of requests or frames ends the server', async () => {
  let left = connections;
  const work = async () => {
    while (left-- > 0) {
      const socket = await dice.pick([http1, http2])();
      if (dice.below(2) === 0) socket.resume();
      for (let turns = dice.below(30); turns > 0; turns--) await turn();
      if (dice.below(3) === 0) socket.end();
      else socket.destroy();
      await turn();
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: concurrent }, work));
  expect((await server.http1('GET', '/livez')).code).toBe(200);
});
