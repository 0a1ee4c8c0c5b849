import { once } from 'node:events';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import { systemClock } from '@oarlock/primitives/clock';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { callHostileServers } from '@oarlock/testing/network/hostile-http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadHosts, type TlsSettings } from '../../src/registry/host-config.ts';
import { discard, HttpClient, readBody } from '../../src/registry/http-client.ts';
import { makeCertificates, type TestCertificates } from '../fixtures/certificates.ts';

const noTls: TlsSettings = { ca: [], certificates: [], skipVerify: false };
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listen(server: Server | HttpServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        if ('closeAllConnections' in server) server.closeAllConnections();
      }),
  );
  return (server.address() as AddressInfo).port;
}

function client(...options: ConstructorParameters<typeof HttpClient>): HttpClient {
  const httpClient = new HttpClient(...options);
  cleanups.push(() => httpClient.close());
  return httpClient;
}
const get = (from: HttpClient, url: string, { tls = noTls, dialTimeoutMs = 60_000, bodyTimeoutMs = Number.POSITIVE_INFINITY } = {}) =>
  from.send({ url: new URL(url), method: 'GET', headers: {}, tls, dialTimeoutMs, bodyTimeoutMs, signal: new AbortController().signal });
const text = async (response: Awaited<ReturnType<typeof get>>) => (await readBody(response, 1000)).toString();

/** A server whose bodies do not end. */
async function endless(): Promise<{ readonly port: number; readonly closed: Promise<void> }> {
  const { promise: closed, resolve } = deferred();
  const port = await listen(
    createHttpServer((_request, response) => {
      response.once('close', resolve);
      response.writeHead(200);
      response.write('x');
    }),
  );
  return { port, closed };
}

it('requests survive every response', async () => {
  const count = await callHostileServers(async (port) =>
    discard(await get(client(systemClock, {}), `http://127.0.0.1:${port}/`, { dialTimeoutMs: 2_000, bodyTimeoutMs: 2_000 })),
  );
  expect(count).toBeGreaterThan(40);
});

it('a request fails if the registry switches protocols', async () => {
  const port = await listen(
    createServer((socket) =>
      socket
        .on('error', () => {})
        .once('data', () => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n')),
    ),
  );
  await expect(get(client(systemClock, {}), `http://127.0.0.1:${port}/v2/`)).rejects.toMatchObject({
    code: 'Unavailable',
    message: expect.stringContaining('the server switched protocols'),
  });
});

describe('a registry that stalls', () => {
  it('before its answer fails the request after a minute', async () => {
    const clock = new FakeClock();
    const server = createHttpServer();
    const port = await listen(server);
    const received = once(server, 'request');
    const failed = expect(get(client(clock, {}), `http://127.0.0.1:${port}/v2/`)).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('net/http: timeout awaiting response headers'),
    });
    await received;
    await clock.advance(60_000);
    await failed;
  });

  it('in the middle of a body fails the read after a minute', async () => {
    const clock = new FakeClock();
    const port = await listen(
      createHttpServer((_request, response) => {
        response.writeHead(200, { 'content-length': 100 });
        response.write('half');
      }),
    );
    const response = await get(client(clock, {}), `http://127.0.0.1:${port}/v2/`);
    const failed = expect(readBody(response, 1000)).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('less than 61440 bytes within 60000 ms'),
    });
    await clock.advance(60_000);
    await failed;
  });

  it('in a body that is read into memory fails the read at the end of its time', async () => {
    const clock = new FakeClock();
    const { port } = await endless();
    const response = await get(client(clock, {}), `http://127.0.0.1:${port}/v2/`, { bodyTimeoutMs: 30_000 });
    const failed = expect(readBody(response, 1000)).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('the response did not end within 30000 ms'),
    });
    await clock.advance(30_000);
    await failed;
  });

  it('after an answer whose body is not read loses the connection, unless the body is short', async () => {
    const { port, closed } = await endless();
    const response = await get(client(systemClock, {}), `http://127.0.0.1:${port}/v2/`);
    discard(response);
    await closed;
    expect(response.body.destroyed).toBe(true);
    const short = await listen(createHttpServer((_request, answer) => answer.end('short')));
    const answered = await get(client(systemClock, {}), `http://127.0.0.1:${short}/v2/`);
    discard(answered);
    await once(answered.body, 'end');
  });

  it('during the TLS handshake fails the request after the dial timeout', async () => {
    const clock = new FakeClock();
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listen(server);
    const connected = once(server, 'connection');
    const failed = expect(get(client(clock, {}), `https://127.0.0.1:${port}/v2/`, { dialTimeoutMs: 5000 })).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('net/http: TLS handshake timeout'),
    });
    const [socket] = (await connected) as [ReturnType<typeof connect>];
    await clock.advance(5000);
    await failed;
    socket.destroy();
  });
});

describe('a registry with TLS', () => {
  let certificates: TestCertificates;
  beforeAll(async () => {
    certificates = await makeCertificates('IP:127.0.0.1,DNS:registry.test');
  });
  afterAll(() => certificates.remove());

  /** Returns the TLS settings of a hosts.toml. */
  async function hostsToml(lines: string): Promise<TlsSettings> {
    const directory = await mkdtemp(join(tmpdir(), 'hosts-'));
    cleanups.push(() => rm(directory, { recursive: true }));
    await mkdir(join(directory, 'registry.test'));
    await writeFile(join(directory, 'registry.test', 'hosts.toml'), `server = "https://registry.test"\n${lines}\n`);
    return (await loadHosts(directory, 'registry.test'))[0]?.tls ?? noTls;
  }
  const server = (requestCert = false) =>
    createHttpsServer({ ...certificates.server, ca: certificates.ca, requestCert, rejectUnauthorized: requestCert }, (request, response) =>
      response.end(`client ${(request.socket as TLSSocket).getPeerCertificate().subject?.CN ?? 'unknown'}`),
    );

  it('is trusted with the CA of hosts.toml only', async () => {
    const url = `https://127.0.0.1:${await listen(server())}/v2/`;
    await expect(get(client(systemClock, {}), url)).rejects.toMatchObject({
      code: 'Unavailable',
      message: expect.stringMatching(/certificate/),
    });
    const tls = await hostsToml(`ca = "${certificates.directory}/ca.crt"`);
    expect(await text(await get(client(systemClock, {}), url, { tls }))).toBe('client unknown');
  });

  it('gets the client certificate of hosts.toml', async () => {
    const url = `https://127.0.0.1:${await listen(server(true))}/v2/`;
    const ca = `ca = "${certificates.directory}/ca.crt"`;
    await expect(get(client(systemClock, {}), url, { tls: await hostsToml(ca) })).rejects.toMatchObject({ code: 'Unavailable' });
    const tls = await hostsToml(`${ca}\nclient = [["${certificates.directory}/client.crt", "${certificates.directory}/client.key"]]`);
    expect(await text(await get(client(systemClock, {}), url, { tls }))).toBe('client client');
  });

  it('is reached through a proxy, unless NO_PROXY names it', async () => {
    const port = await listen(server());
    const tunnels: string[] = [];
    const proxyPort = await listen(
      createHttpServer().on('connect', (request, socket) => {
        tunnels.push(`${request.url} ${request.headers['proxy-authorization']}`);
        const registry = connect(port, '127.0.0.1', () => {
          socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
          registry.pipe(socket).pipe(registry);
        });
      }),
    );
    const tls = await hostsToml(`ca = "${certificates.directory}/ca.crt"`);
    const httpsProxy = `http://user:secret@127.0.0.1:${proxyPort}`;
    expect(await text(await get(client(systemClock, { httpsProxy }), 'https://registry.test/v2/', { tls }))).toBe('client unknown');
    expect(tunnels).toEqual([`registry.test:443 Basic ${Buffer.from('user:secret').toString('base64')}`]);
    const direct = client(systemClock, { httpsProxy, noProxy: '.test' });
    await expect(get(direct, 'https://registry.test/v2/', { tls })).rejects.toMatchObject({ code: 'Unavailable' });
    expect(tunnels).toHaveLength(1);
  });
});

it('a registry without TLS is requested from the proxy by its URL', async () => {
  const urls: (string | undefined)[] = [];
  const proxyPort = await listen(
    createHttpServer((request, response) => {
      urls.push(request.url);
      response.end('from the proxy');
    }),
  );
  const httpProxy = `127.0.0.1:${proxyPort}`;
  expect(await text(await get(client(systemClock, { httpProxy }), 'http://registry.test:5000/v2/'))).toBe('from the proxy');
  expect(urls).toEqual(['http://registry.test:5000/v2/']);
});
