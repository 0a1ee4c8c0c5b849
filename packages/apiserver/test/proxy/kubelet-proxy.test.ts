import { once } from 'node:events';
import { createServer as createPlainServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { duplexPair } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { FakeClock } from '@oarlock/testing/fake-clock';
import type { LocalKubelet } from '@oarlock/spi/local-nodes';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const pod = '/api/v1/namespaces/a/pods/b';
const asAdmin = { headers: { authorization: 'Bearer good' } };

describe('a kubelet of this process', () => {
  let keys: TestKeys;
  let listener: Server;
  let port: number;
  let server: TestServer;
  const localKubelets = new Map<string, LocalKubelet>();
  /** Requests over in-memory connections. */
  const received: IncomingMessage[] = [];
  const inMemoryServer = createPlainServer((request, response) => {
    received.push(request);
    response.end('in memory');
  });
  const echo = new WebSocketServer({ noServer: true });
  inMemoryServer.on('upgrade', (request, socket, head) => {
    received.push(request);
    if (request.url === '/attach/a')
      socket.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo many ');
    else
      echo.handleUpgrade(request, socket, head, (peer) => {
        peer.on('message', (data: Buffer) => peer.send(data));
      });
  });
  const connect = () => {
    const [near, far] = duplexPair();
    inMemoryServer.emit('connection', far);
    return near;
  };

  beforeAll(async () => {
    keys = await testKeys();
    const pair = await keys.issue({ commonName: 'system:node:n', ipAddresses: ['127.0.0.1'], usages: ['server'] });
    listener = createServer({ cert: pair.certificate, key: pair.key }, (_, response) => response.end('over TLS'));
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    port = (listener.address() as AddressInfo).port;
  });
  afterAll(() => {
    listener.closeAllConnections();
    listener.close();
  });
  beforeEach(async () => {
    localKubelets.clear();
    received.length = 0;
    server = await startServer({ keys, local: { register: () => () => undefined, find: (name) => localKubelets.get(name) } });
    server.pipeline.answer = ({ subresource }) => ({
      kind: 'kubelet',
      own: true,
      nodeName: 'n',
      host: '127.0.0.1',
      port,
      path: `/${subresource}/a`,
      upgrade: subresource !== 'log',
    });
  });
  afterEach(() => server.stop());

  it('is called over an in-memory connection, without the credentials of the client', async () => {
    localKubelets.set('n', { host: '127.0.0.1', port, connect });
    const answer = await server.http1('GET', `${pod}/log`, asAdmin);
    expect([answer.code, answer.text]).toEqual([200, 'in memory']);
    expect(received.map(({ url, headers }) => [url, headers.authorization])).toEqual([['/log/a', undefined]]);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('streams over an in-memory connection, and its rejections are forwarded', async () => {
    localKubelets.set('n', { host: '127.0.0.1', port, connect });
    const socket = new WebSocket(`wss://127.0.0.1:${server.port}${pod}/exec`, { ca: keys.caBundle, ...asAdmin });
    const large = Buffer.alloc(3_000_000, 'x');
    await once(socket, 'open');
    socket.send(large);
    const [back] = (await once(socket, 'message')) as [Buffer];
    expect(back.equals(large)).toBe(true);
    socket.close();
    await once(socket, 'close');
    await expect.poll(() => server.handler.active).toBe(0);

    const rejected = new WebSocket(`wss://127.0.0.1:${server.port}${pod}/attach`, { ca: keys.caBundle, ...asAdmin });
    rejected.on('error', () => undefined);
    const [request, response] = (await once(rejected, 'unexpected-response')) as [{ destroy(): void }, IncomingMessage];
    expect(response.statusCode).toBe(503);
    request.destroy();
  });

  it('is not called for logs that cannot exist: 204', async () => {
    server.pipeline.answer = () => ({ kind: 'nothing' });
    for (const get of [server.http1, server.http2]) {
      const answer = await get('GET', `${pod}/log`, asAdmin);
      expect([answer.code, answer.text]).toEqual([204, '']);
    }
    expect(received).toEqual([]);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it.each([
    ['of another node', 'm', 0],
    ['with another address than that of the Node', 'n', 1],
  ] as const)('is not used in place of a kubelet %s', async (_, nodeName, off) => {
    localKubelets.set(nodeName, { host: '127.0.0.1', port: port + off, connect });
    expect((await server.http1('GET', `${pod}/log`, asAdmin)).text).toBe('over TLS');
    expect(received).toEqual([]);
  });
});

it('presents another client certificate after half a day, without ending requests that are in progress', async () => {
  const keys = await testKeys();
  const pair = await keys.issue({ commonName: 'system:node:n', ipAddresses: ['127.0.0.1'], usages: ['server'] });
  const presented: string[] = [];
  const held: ServerResponse[] = [];
  const kubelet = createServer(
    { cert: pair.certificate, key: pair.key, ca: keys.caBundle, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      presented.push((request.socket as TLSSocket).getPeerX509Certificate()?.serialNumber ?? '');
      if (presented.length > 1) response.end('line');
      else {
        held.push(response);
        response.write('first ');
      }
    },
  );
  kubelet.listen(0, '127.0.0.1');
  await once(kubelet, 'listening');
  const { port } = kubelet.address() as AddressInfo;
  const clock = new FakeClock({ start: Date.now() });
  const server = await startServer({ keys, clock });
  server.pipeline.answer = () => ({ kind: 'kubelet', own: true, nodeName: 'n', host: '127.0.0.1', port, path: '/log/a', upgrade: false });
  try {
    const following = server.http1('GET', `${pod}/log`, asAdmin);
    await expect.poll(() => held.length).toBe(1);
    await clock.advance(13 * 3_600_000);
    expect((await server.http1('GET', `${pod}/log`, asAdmin)).text).toBe('line');
    expect(new Set(presented).size).toBe(2);
    held[0]?.end('last');
    expect((await following).text).toBe('first last');
  } finally {
    await server.stop();
    kubelet.closeAllConnections();
    kubelet.close();
  }
});
