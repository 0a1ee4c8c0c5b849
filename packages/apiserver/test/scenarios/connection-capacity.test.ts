import { EventEmitter, once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { authenticated, type Authenticator } from '@oarlock/spi/authn';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { configMap, encoded, frame } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { closed, closedByReason, rawTcp, rawTls } from '../support/raw-connections.ts';
import { byCertificate, startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const version = 'GET /version HTTP/1.1\r\nHost: a\r\n\r\n';
let keys: TestKeys;
let server: TestServer;
beforeAll(async () => {
  keys = await testKeys();
});
afterEach(() => server.stop());
const start = async (limits: NonNullable<ServerSettings['limits']>, settings: ServerSettings = {}) => {
  server = await startServer({ keys, limits, ...settings });
};

/** Bearer tokens name the user; `node` and `admin` are system clients. */
const byToken: Authenticator = {
  authenticate: (credentials) => {
    const { bearerToken } = credentials;
    if (bearerToken === undefined) return byCertificate.authenticate(credentials);
    const group = { node: 'system:nodes', admin: 'system:masters' }[bearerToken] ?? 'system:serviceaccounts';
    return authenticated({ name: bearerToken, groups: [group] });
  },
};

/** Opens a connection and has a request on it authenticated as `user`. */
async function connectAs(user: string): Promise<TLSSocket> {
  const socket = await rawTls(server, { protocol: 'http/1.1' });
  await requestAs(socket, user);
  return socket;
}
async function requestAs(socket: TLSSocket, user: string): Promise<void> {
  socket.write(version.replace('\r\n\r\n', `\r\nAuthorization: Bearer ${user}\r\n\r\n`));
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
}
async function connections(): Promise<Readonly<Record<string, number>>> {
  const metric = await server.registry.getSingleMetric('apiserver_connections')?.get();
  return Object.fromEntries(metric?.values.map(({ labels, value }) => [labels['class'], value]) ?? []);
}

describe('the bound of connections by source', () => {
  it('closes the oldest connection of the source without an authenticated request', async () => {
    await start({ maxUnauthenticatedPerSource: 2 }, { authn: [byToken] });
    const known = await connectAs('someone');
    const [first, second] = [await rawTcp(server), await rawTls(server, { protocol: 'http/1.1' })];
    const third = await rawTls(server, { protocol: 'http/1.1' });
    await closed(first);
    expect(await closedByReason(server)).toEqual({ 'source-limit': 1 });
    for (const socket of [known, second, third]) await requestAs(socket, 'someone');
    expect(await connections()).toEqual({ unauthenticated: 0, authenticated: 3, system: 0 });
  });

  it('does not count a connection with a client certificate', async () => {
    await start({ maxUnauthenticatedPerSource: 1 });
    const pair = await keys.issue({ commonName: 'someone', usages: ['client'] });
    for (let i = 0; i < 3; i++) {
      const socket = await rawTls(server, { protocol: 'http/1.1', pair });
      // with TLS 1.3 the client's handshake ends before the server has verified the certificate
      socket.write(version);
      await once(socket, 'data');
    }
    expect(await connections()).toMatchObject({ unauthenticated: 0, system: 3 });
    expect(await closedByReason(server)).toEqual({});
  });
});

describe('the bound of TLS handshakes', () => {
  it('ends the oldest handshake of the source with the most', async () => {
    await start({ maxHandshakes: 3 });
    const other = await rawTcp(server, '127.0.0.2');
    const [first, second] = [await rawTcp(server), await rawTcp(server)];
    const done = await rawTls(server, { protocol: 'http/1.1' });
    await closed(first);
    done.write(version);
    await once(done, 'data');
    expect([other.destroyed, second.destroyed]).toEqual([false, false]);
    expect(await closedByReason(server)).toEqual({ 'handshake-limit': 1 });
  });
});

describe('the bound of all connections', () => {
  it('closes connections without an authenticated request first', async () => {
    await start({ maxConnections: 4, reservedConnections: 1 }, { authn: [byToken] });
    const [known, node, flood] = [await connectAs('someone'), await connectAs('node'), await rawTcp(server)];
    const rest = [await rawTcp(server), await rawTcp(server), await rawTcp(server)];
    await closed(flood);
    await requestAs(known, 'someone');
    await requestAs(node, 'node');
    await requestAs(await rawTls(server, { protocol: 'http/1.1' }), 'admin');
    expect(rest[0]?.destroyed).toBe(true);
    expect(await closedByReason(server)).toEqual({ 'total-limit': 3 });
    for (const socket of rest) socket.destroy();
  });

  it('closes the oldest connection of the source with the most connections', async () => {
    await start({ maxConnections: 4, reservedConnections: 1 });
    const single = await rawTcp(server, '127.0.0.2');
    const many = [await rawTcp(server, '127.0.0.3'), await rawTcp(server, '127.0.0.3'), await rawTcp(server, '127.0.0.3')];
    const late = await rawTcp(server, '127.0.0.4');
    await closed(many[0] as Socket);
    expect([single, ...many.slice(1), late].map(({ destroyed }) => destroyed)).toEqual([false, false, false, false]);
    for (const socket of [single, ...many, late]) socket.destroy();
  });

  it('keeps the reserve for nodes and administrators', async () => {
    await start({ maxConnections: 4, reservedConnections: 2 }, { authn: [byToken] });
    const users = [await connectAs('a'), await connectAs('b'), await connectAs('c'), await connectAs('d')];
    const node = await connectAs('node');
    const admin = await connectAs('admin');
    await Promise.all(users.slice(0, 2).map(closed));
    await requestAs(node, 'node');
    await requestAs(admin, 'admin');
    for (const socket of users.slice(2)) await requestAs(socket, 'c');
    expect(await connections()).toEqual({ unauthenticated: 0, authenticated: 2, system: 2 });
  });

  it('rejects a new connection if only system clients and permitted ones remain', async () => {
    await start({ maxConnections: 2, reservedConnections: 1 }, { authn: [byToken] });
    const [node, known] = [await connectAs('node'), await connectAs('someone')];
    await closed(await rawTcp(server));
    expect(await closedByReason(server)).toEqual({ 'total-limit': 1 });
    await requestAs(node, 'node');
    await requestAs(known, 'someone');
  });

  it('closes a connection without a request rather than a watch', async () => {
    await start({ maxConnections: 3, reservedConnections: 2 }, { authn: [byToken] });
    const gate = new EventEmitter();
    server.pipeline.watch(async function* () {
      yield [frame('ADDED', encoded(configMap('a')))];
      await once(gate, 'end');
    });
    const watch = await rawTls(server, { protocol: 'http/1.1' });
    watch.write(`GET ${maps}?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer someone\r\n\r\n`);
    await once(watch, 'data');
    const [idle] = [await connectAs('someone'), await connectAs('someone')];
    const late = await rawTcp(server);
    await closed(idle as TLSSocket);
    expect(watch.destroyed).toBe(false);
    gate.emit('end');
    for (const socket of [watch, late]) socket.destroy();
  });
});

describe('a quiet stream', () => {
  const hourMs = 3_600_000;
  it.each(['http1', 'http2'] as const)('stays open as a watch over %s', async (protocol) => {
    const clock = new FakeClock();
    await start({}, { clock });
    const gate = new EventEmitter();
    server.pipeline.watch(async function* () {
      yield [frame('ADDED', encoded(configMap('first')))];
      queueMicrotask(() => gate.emit('quiet'));
      await once(gate, 'continue');
      yield [frame('ADDED', encoded(configMap('last')))];
    });
    const quiet = once(gate, 'quiet');
    const answer = server[protocol]('GET', `${maps}?watch=1`);
    await quiet;
    await clock.advance(hourMs);
    gate.emit('continue');
    expect((await answer).text).toContain('"name":"last"');
    expect(await closedByReason(server)).toEqual({});
  });
});

describe('a quiet upgraded stream', () => {
  it('stays open', async () => {
    const backend = createServer((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
        socket.pipe(socket);
      });
      socket.on('error', () => socket.destroy());
    }).listen(0, '127.0.0.1');
    await once(backend, 'listening');
    const { port } = backend.address() as AddressInfo;
    const clock = new FakeClock();
    await start({}, { clock });
    server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'http', host: '127.0.0.1', port, allowLoopback: true });
    const socket = await rawTls(server, { protocol: 'http/1.1' });
    socket.write('GET /api/v1/namespaces/a/pods/http:b:8080/proxy/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
    const [head] = (await once(socket, 'data')) as [Buffer];
    expect(head.toString('latin1')).toMatch(/^HTTP\/1\.1 101 /);
    await clock.advance(3_600_000);
    socket.write('still open');
    const [echo] = (await once(socket, 'data')) as [Buffer];
    expect(echo.toString('latin1')).toBe('still open');
    expect(await closedByReason(server)).toEqual({});
    socket.destroy();
    backend.close();
  });
});

describe('a client that vanishes', () => {
  it('is detected by TCP keepalive', async () => {
    await start({});
    const socket = await rawTcp(server);
    const hex = (port: number | undefined) => (port ?? 0).toString(16).toUpperCase().padStart(4, '0');
    const [local, remote] = [`0100007F:${hex(server.port)}`, `0100007F:${hex(socket.localPort)}`];
    const line = (await readFile('/proc/net/tcp', 'utf8')).split('\n').find((row) => row.includes(`${local} ${remote}`));
    // proc(5): the timer 02 is that of keepalive
    expect(line).toMatch(/ 02:[0-9A-F]{8} /);
    socket.destroy();
  });
});
