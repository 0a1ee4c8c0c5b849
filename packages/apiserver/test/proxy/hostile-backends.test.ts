import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { rawTls, readToEnd } from '../support/raw-connections.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const pod = '/api/v1/namespaces/a/pods/http:b:8080/proxy/';
const open = new Set<Socket>();
let server: TestServer;
let answer: (socket: Socket) => void;
const backend = createServer((socket) => {
  open.add(socket);
  socket.on('error', () => socket.destroy()).once('data', () => answer(socket));
});
beforeAll(async () => {
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  server = await startServer();
  const { port } = backend.address() as AddressInfo;
  server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'http', host: '127.0.0.1', port, allowLoopback: true });
});
afterAll(async () => {
  for (const socket of open) socket.destroy();
  backend.close();
  await server.stop();
});

const upgrade = async (): Promise<string> => {
  const socket = await rawTls(server, { protocol: 'http/1.1' });
  socket.write(`GET ${pod} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n`);
  return readToEnd(socket);
};

it.each([0, 99, 101, 600, 999])('a response with the status code %i is not forwarded', async (code) => {
  const status = String(code).padStart(3, '0');
  answer = (socket) => socket.end(`HTTP/1.1 ${status} x\r\nContent-Length: 1\r\n\r\na`);
  const message = `error trying to reach service: unsupported status code ${code}`;
  for (const protocol of ['http1', 'http2'] as const) {
    const { code: sent, json } = await server[protocol]('GET', pod);
    expect([sent, json<{ message: string }>().message]).toEqual([503, message]);
  }
  expect(await upgrade()).toMatch(new RegExp(`^HTTP/1.1 503 [^]*${message}`));
});

it('a response with the status code 205 has no body', async () => {
  answer = (socket) => socket.end('HTTP/1.1 205 x\r\nContent-Length: 1\r\n\r\na');
  expect(await server.http2('GET', pod)).toMatchObject({ code: 205, text: '' });
  expect(await server.http1('GET', pod)).toMatchObject({ code: 205, text: '' });
});

const partial = 'HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nabc';
it.each([
  ['ends early', (socket: Socket) => socket.end(partial)],
  ['is reset', (socket: Socket) => socket.write(partial, () => socket.resetAndDestroy())],
  ['has a chunk without a length', (socket: Socket) => socket.write('HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')],
])('the connection of a client closes if the rejection of its upgrade %s', async (_, reject) => {
  answer = reject;
  expect(await upgrade()).toMatch(/^HTTP\/1.1 403 Forbidden\r\n/);
});

it('the head of a rejected upgrade is forwarded in its encoding', async () => {
  answer = (socket) => socket.end(Buffer.from('HTTP/1.1 403 \xe9\r\nX-Text: \xfc\r\nContent-Length: 0\r\n\r\n', 'latin1'));
  expect(await upgrade()).toMatch(/^HTTP\/1.1 403 \xe9\r\nX-Text: \xfc\r\n/);
});
