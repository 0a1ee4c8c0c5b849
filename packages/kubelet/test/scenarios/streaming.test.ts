import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request } from 'node:https';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { silentLogger } from '@oarlock/primitives/logger';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { ClusterKeys, KeyPair } from '@oarlock/spi/cluster';
import { RuntimeError, type RuntimeDriver } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createWebSocketStream, WebSocket, WebSocketServer } from 'ws';
import { serveWebSocketForward } from '../../src/server/streaming/port-forward-websocket.ts';
import { KubeletServer } from '../../src/server/kubelet-server.ts';
import { app, Bench, podOf, withTraits } from '../support/bench.ts';

/** A port without a listener in the pod. */
const closedPort = 1;

describe.each(['the listener', 'an in-process connection'] as const)('streams of a kubelet by %s', (way) => {
  let bench: Bench;
  let server: KubeletServer;
  let port: number;
  let keys: ClusterKeys;
  let directory: string;
  let client: KeyPair;
  /** The server in the pod: echoes its input after the end of it. */
  let echo: Server;
  let echoPort: number;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-keys-'));
    ({ keys } = await openKeys(directory, 'https://kubernetes.default.svc'));
    client = await keys.issue({ commonName: 'kube-apiserver-kubelet-client', usages: ['client'] });
    echo = createServer({ allowHalfOpen: true }, (socket) => {
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => socket.end(Buffer.concat(chunks)));
      socket.on('error', () => undefined);
    });
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    echoPort = (echo.address() as AddressInfo).port;
    bench = await new Bench({
      keys,
      clock: new FakeClock({ start: Date.now() }),
      wrap: (driver) =>
        Object.assign(withTraits(driver, { simulated: false }), {
          portForward: (async (_sandbox, wanted) => {
            if (wanted === closedPort) throw new RuntimeError('Unavailable', 'no listener');
            const socket = connect({ host: '127.0.0.1', port: wanted, allowHalfOpen: true });
            await once(socket, 'connect');
            return socket;
          }) satisfies RuntimeDriver['portForward'],
        }),
      config: { files: true, address: '127.0.0.1' },
    }).start();
    server = new KubeletServer({
      kubelet: bench.kubelet,
      log: silentLogger,
      signal: bench.signal,
      listen: { host: '127.0.0.1', port: 0 },
      metrics: async () => '',
    });
    port = await server.start();
    bench.create(podOf('web', { containers: [app({ tty: false })] }));
    await vi.waitFor(() => expect(bench.pod('web')?.status?.phase).toBe('Running'), 120_000);
  });
  afterAll(async () => {
    await server.stop();
    await bench.dispose();
    echo.close();
    await rm(directory, { recursive: true, force: true });
  });

  const upgrade = (path: string, headers: Record<string, string | string[]>, method = 'POST') =>
    new Promise<{ code: number; headers: Record<string, unknown>; socket?: Duplex; head?: Buffer }>((resolve, reject) => {
      const options = { path, method, headers: { connection: 'Upgrade', ...headers } };
      const clientRequest =
        way === 'the listener'
          ? request({
              ...options,
              host: '127.0.0.1',
              port,
              agent: false,
              ca: keys.caBundle,
              cert: client.certificate,
              key: client.key,
            })
          : httpRequest({ ...options, createConnection: () => server.connect() });
      clientRequest.once('error', reject);
      clientRequest.once('response', (response) => {
        response.resume();
        resolve({ code: response.statusCode ?? 0, headers: response.headers });
      });
      clientRequest.once('upgrade', (response, socket: Duplex, head) => {
        resolve({ code: response.statusCode ?? 0, headers: response.headers, socket, head });
      });
      clientRequest.end();
    });

  async function spdy(path: string, protocols: string[]) {
    const { code, headers, socket, head } = await upgrade(path, { upgrade: 'SPDY/3.1', 'x-stream-protocol-version': protocols });
    if (socket === undefined) throw new Error(`answered with ${code}`);
    return { connection: new SpdyConnection(socket, { role: 'client' }, head), protocol: headers['x-stream-protocol-version'] };
  }

  /** Runs a command like kubectl before 1.31. */
  async function command(query: string, types: readonly string[], protocols = ['v4.channel.k8s.io', 'v3.channel.k8s.io'], stdin = '') {
    const { connection, protocol } = await spdy(`/exec/default/web/app?${query}`, protocols);
    const streams = new Map(types.map((streamType) => [streamType, connection.open({ streamType })]));
    await Promise.all([...streams.values()].map((stream) => stream.replied));
    streams.get('error')?.end();
    streams.get('stdin')?.end(stdin);
    const [stdout, stderr, error] = await Promise.all(
      ['stdout', 'stderr', 'error'].map((type) => {
        const stream = streams.get(type);
        return stream === undefined ? '' : text(stream);
      }),
    );
    await connection.closed;
    return { protocol, stdout, stderr, error };
  }

  it('run commands over SPDY and send the result', async () => {
    expect(await command('command=echo&command=a&command=b&output=1&error=1', ['error', 'stdout', 'stderr'])).toEqual({
      protocol: 'v4.channel.k8s.io',
      stdout: 'a\nb\n',
      stderr: '',
      error: '{"metadata":{},"status":"Success"}',
    });
    const failed = await command('command=exit&command=42&output=1&error=1', ['error', 'stdout', 'stderr']);
    expect(JSON.parse(failed.error ?? '')).toMatchObject({ reason: 'NonZeroExitCode', details: { causes: [{ message: '42' }] } });
    const complained = await command('command=complain&command=no&output=1&error=1', ['error', 'stdout', 'stderr']);
    expect(complained.stderr).toBe('no\n');
    expect(await command('command=exit&command=3&output=1', ['error', 'stdout'], ['v2.channel.k8s.io'])).toMatchObject({
      protocol: 'v2.channel.k8s.io',
      error: 'error executing command in container: command terminated with exit code 3',
    });
  });

  it('transfer large data to a command over SPDY and back, and the end of stdin', async () => {
    const much = 'x'.repeat(3_000_000);
    const { stdout, error } = await command('command=cat&input=1&output=1', ['error', 'stdin', 'stdout'], undefined, much);
    expect(stdout === much).toBe(true);
    expect(error).toBe('{"metadata":{},"status":"Success"}');
  });

  it('end a command when its SPDY client disconnects', async () => {
    const { connection } = await spdy('/exec/default/web/app?command=sleep&command=infinity&command=mark&output=1', ['v4.channel.k8s.io']);
    for (const streamType of ['error', 'stdout']) connection.open({ streamType }).on('error', () => undefined);
    const [container] = await bench.runtime.listContainers({ state: 'RUNNING' });
    const alive = async () => (await bench.runtime.execSync(container?.id ?? '', ['pgrep', 'mark'], 0)).exitCode === 0;
    await expect.poll(alive).toBe(true);
    connection.destroy();
    await expect.poll(alive).toBe(false);
  });

  /** Forwards one connection like kubectl. */
  async function forwarded(connection: SpdyConnection, wanted: number, id: string, sent: string) {
    const headers = { port: String(wanted), requestID: id };
    const error = connection.open({ ...headers, streamType: 'error' });
    error.end();
    const data = connection.open({ ...headers, streamType: 'data' });
    data.end(sent);
    const [received, complaint] = await Promise.all([text(data), text(error)]);
    return { received, complaint };
  }

  it('forward many concurrent connections over SPDY, with half-close', async () => {
    const { connection, protocol } = await spdy('/portForward/default/web', ['portforward.k8s.io']);
    expect(protocol).toBe('portforward.k8s.io');
    const sent = Array.from({ length: 20 }, (_, i) => `${i}`.repeat(1 + i * 10_000));
    const answers = await Promise.all(sent.map((bytes, i) => forwarded(connection, echoPort, `${i}`, bytes)));
    expect(answers.every(({ received, complaint }, i) => received === sent[i] && complaint === '')).toBe(true);
    connection.destroy();
  });

  it('report why a port cannot be reached', async () => {
    const { connection } = await spdy('/portForward/default/web', ['portforward.k8s.io']);
    const { received, complaint } = await forwarded(connection, closedPort, '0', '');
    expect([received, complaint]).toEqual([
      '',
      expect.stringMatching(/^error forwarding port \d+ to pod default_web, uid .*: no listener$/),
    ]);
    // the SPDY connection remains usable
    expect(await forwarded(connection, echoPort, '1', 'more')).toEqual({ received: 'more', complaint: '' });
    connection.destroy();
  });

  it('reject unsupported protocols before the upgrade', async () => {
    const spdyTo = async (path: string, protocol: string) =>
      (await upgrade(path, { upgrade: 'SPDY/3.1', 'x-stream-protocol-version': protocol })).code;
    expect(await spdyTo('/exec/default/web/app?command=echo&output=1', 'v9.channel.k8s.io')).toBe(403);
    expect(await spdyTo('/portForward/default/none', 'portforward.k8s.io')).toBe(404);
    expect(await spdyTo('/portForward/default/web/uid', 'portforward.k8s.io')).toBe(404);
    expect((await upgrade('/portForward/default/web', { upgrade: 'h2c' })).code).toBe(400);
  });

  it('answer a WebSocket tunnel with the subprotocol that kubectl offers', async () => {
    const offer = {
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': Buffer.alloc(16).toString('base64'),
      'sec-websocket-protocol': 'SPDY/3.1+portforward.k8s.io',
    };
    const { code, headers, socket } = await upgrade('/portForward/default/web', offer, 'GET');
    expect([code, headers['sec-websocket-protocol']]).toEqual([101, 'SPDY/3.1+portforward.k8s.io']);
    socket?.destroy();
  });

  it('forward ports through WebSocket channels, as clients in other languages use them', async () => {
    const socket = new WebSocket(`wss://127.0.0.1:${port}/portForward/default/web?port=${echoPort}`, 'v4.channel.k8s.io', {
      ca: keys.caBundle,
      cert: client.certificate,
      key: client.key,
    });
    const received: Buffer[] = [];
    socket.on('message', (message: Buffer) => received.push(message));
    await vi.waitFor(() => expect(received).toHaveLength(2), { timeout: 120_000, interval: 20 });
    const named = Buffer.alloc(2);
    named.writeUInt16LE(echoPort);
    expect(received).toEqual([Buffer.concat([Buffer.from([0]), named]), Buffer.concat([Buffer.from([1]), named])]);
    socket.send(Buffer.from('\0hello'));
    socket.close();
    await once(socket, 'close');
  });

  it('forward ports through SPDY in WebSocket messages', async () => {
    const host = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(host, 'listening');
    host.on('connection', (socket) => {
      void serveWebSocketForward(
        { socket, protocol: 'SPDY/3.1+portforward.k8s.io' },
        {
          ports: [],
          target: {
            name: 'default_web',
            uid: '1',
            connect: async () => connect({ host: '127.0.0.1', port: echoPort, allowHalfOpen: true }),
          },
          session: { stopped: bench.signal, clock: bench.kubelet.context.clock, active: () => undefined },
        },
      );
    });
    const socket = new WebSocket(`ws://127.0.0.1:${(host.address() as AddressInfo).port}`);
    await once(socket, 'open');
    const connection = new SpdyConnection(createWebSocketStream(socket), { role: 'client' });
    const much = 'y'.repeat(2_000_000);
    expect((await forwarded(connection, 80, '0', much)).received === much).toBe(true);
    connection.destroy();
    await once(socket, 'close');
    host.close();
  });
});
