import { afterEach, expect, it } from 'vitest';
import { once } from 'node:events';
import { configMap } from '../support/fake-pipeline.ts';
import { rawTls, readToEnd } from '../support/raw-connections.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const plain = `GET ${maps}/a HTTP/1.1\r\nHost: a\r\n\r\n`;
const upgrade = `GET ${maps}/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
let server: TestServer;
afterEach(() => server.stop());

it.each([
  ['a request', plain],
  ['an upgrade', upgrade],
])('a connection ends on which an upgrade follows %s that is in progress', async (_, first) => {
  server = await startServer();
  let aborted = false;
  server.pipeline.answer = ({ signal }) =>
    new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => {
        aborted = true;
        reject(signal.reason as Error);
      });
    });
  const socket = await rawTls(server, { protocol: 'http/1.1' });
  socket.write(first + upgrade);
  if (first === upgrade) socket.end(); // bytes behind an upgrade belong to the other protocol
  expect(await readToEnd(socket)).toBe('');
  await expect.poll(() => aborted).toBe(true);
  expect((await server.http1('GET', '/livez')).code).toBe(200);
});

it('a connection ends on which an upgrade follows a request that Node answers itself', async () => {
  server = await startServer();
  const socket = await rawTls(server, { protocol: 'http/1.1' });
  socket.write(`GET /livez HTTP/1.1\r\nHost: a\r\nExpect: other\r\n\r\n${upgrade}`);
  await readToEnd(socket);
  expect((await server.http1('GET', '/livez')).code).toBe(200);
});

it('an upgrade is served on a connection whose earlier request has ended', async () => {
  server = await startServer();
  server.pipeline.object(configMap('a'));
  const socket = await rawTls(server, { protocol: 'http/1.1' });
  socket.write(plain);
  expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1.1 200 /);
  socket.write(upgrade);
  expect(await readToEnd(socket)).toMatch(/HTTP\/1.1 200 OK[^]*"name":"a"/);
});
