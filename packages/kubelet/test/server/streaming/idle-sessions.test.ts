import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { PassThrough, type Duplex } from 'node:stream';
import { silentLogger } from '@oarlock/primitives/logger';
import { SpdyConnection } from '@oarlock/spdy/connection';
import type { Streams } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWebSocketStream, WebSocket, WebSocketServer } from 'ws';
import type { PodWorker } from '../../../src/pod/worker/pod-worker.ts';
import { LocalConnection } from '../../../src/server/http/local-connection.ts';
import { StreamingSessions } from '../../../src/server/streaming/streaming-sessions.ts';
import type { Upgraded } from '../../../src/server/streaming/streaming-upgrades.ts';

const idleTimeoutMs = 4 * 3_600_000;
const almostMs = idleTimeoutMs - 1;
const everyStream = new URLSearchParams('command=cat&stdin=1&stdout=1');

/** What the runtime sees of the only session of a test. */
class FakeDriver {
  streams: Streams | undefined;
  signal: AbortSignal | undefined;
  readonly #ended: Promise<number>;
  #end!: (exitCode: number) => void;
  /** The far side of a forwarded port. */
  readonly port = new PassThrough();

  constructor() {
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }
  #run(streams: Streams, signal: AbortSignal): Promise<number> {
    this.streams = streams;
    this.signal = signal;
    signal.addEventListener('abort', () => this.#end(1), { once: true });
    return this.#ended;
  }
  exec(_id: string, _command: readonly string[], streams: Streams, { signal }: { readonly signal: AbortSignal }): Promise<number> {
    return this.#run(streams, signal);
  }
  async attach(_id: string, streams: Streams, { signal }: { readonly signal: AbortSignal }): Promise<void> {
    await this.#run(streams, signal);
  }
  async portForward(_id: string, _port: number, { signal }: { readonly signal: AbortSignal }): Promise<Duplex> {
    this.signal = signal;
    return this.port;
  }
}

function workerOf(driver: FakeDriver): PodWorker {
  return {
    record: {
      namespace: 'default',
      name: 'web',
      uid: '1',
      pod: { spec: { containers: [{ name: 'app' }] } },
      runtime: { pleg: { driver } },
      state: { latestContainer: () => ({ id: 'c', state: 'RUNNING' }), readySandbox: { id: 's' } },
    },
  } as unknown as PodWorker;
}

describe('idle sessions', () => {
  let clock: FakeClock;
  let driver: FakeDriver;
  let sessions: StreamingSessions;
  let stop: AbortController;
  let host: WebSocketServer;

  beforeEach(async () => {
    clock = new FakeClock();
    driver = new FakeDriver();
    stop = new AbortController();
    sessions = new StreamingSessions({ signal: stop.signal, clock, log: silentLogger, idleTimeoutMs });
    host = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(host, 'listening');
  });
  afterEach(() => {
    stop.abort();
    for (const client of host.clients) client.terminate();
    host.close();
  });

  const command = (area: 'exec' | 'attach') => sessions.command(workerOf(driver), { name: 'app', area, query: everyStream });
  const forward = () => sessions.forward(workerOf(driver), new URLSearchParams('port=80'));

  /** Starts a session over SPDY. `ended` resolves when the kubelet has ended the session. */
  function overSpdy(serve: (upgraded: Upgraded) => Promise<void>, protocol: string) {
    const [near, far] = LocalConnection.pair();
    const ended = serve({ over: 'spdy', socket: far, head: Buffer.alloc(0), protocol });
    return { connection: new SpdyConnection(near, { role: 'client' }), ended };
  }

  /** Starts a session over a WebSocket. */
  async function overWebSocket(serve: (upgraded: Upgraded) => Promise<void>, protocol: string) {
    const accepted = once(host, 'connection') as Promise<[WebSocket]>;
    const socket = new WebSocket(`ws://127.0.0.1:${(host.address() as AddressInfo).port}`);
    const [server] = await accepted;
    const ended = serve({ over: 'websocket', socket: server, protocol });
    socket.on('error', () => undefined);
    return { socket, server, ended };
  }

  /** Asserts that a session lasts as long as `transfer` happens within each period, and ends one period after the last one. */
  async function expectEndAfter(ended: Promise<void>, transfers: readonly (() => Promise<unknown>)[]) {
    let open = true;
    const observed = ended.then(() => {
      open = false;
    });
    for (const transfer of transfers) {
      await clock.advance(almostMs);
      await transfer();
      expect(open).toBe(true);
    }
    await clock.advance(almostMs);
    expect([open, driver.signal?.aborted]).toEqual([true, false]);
    await clock.advance(1);
    await observed;
    expect(driver.signal?.aborted).toBe(true);
  }
  const started = () => expect.poll(() => driver.signal !== undefined, { interval: 5 }).toBe(true);

  it.each(['exec', 'attach'] as const)('of %s over SPDY end without input and output', async (area) => {
    const { connection, ended } = overSpdy(command(area), 'v4.channel.k8s.io');
    const [error, stdin, stdout] = ['error', 'stdin', 'stdout'].map((streamType) => connection.open({ streamType }));
    for (const stream of [error, stdin, stdout]) stream?.on('error', () => undefined);
    await started();
    await expectEndAfter(ended, [
      async () => {
        stdin?.write('in');
        await once(driver.streams?.stdin as PassThrough, 'data');
      },
      async () => {
        driver.streams?.stdout?.write('out');
        await once(stdout as Duplex, 'data');
      },
      () => connection.ping(),
    ]);
    await connection.closed;
  });

  it.each(['exec', 'attach'] as const)('of %s over a WebSocket end without messages', async (area) => {
    const { socket, server, ended } = await overWebSocket(command(area), 'v5.channel.k8s.io');
    await started();
    const closed = once(socket, 'close');
    await expectEndAfter(ended, [
      async () => {
        socket.send(Buffer.from('\0in'));
        await once(driver.streams?.stdin as PassThrough, 'data');
      },
      async () => {
        driver.streams?.stdout?.write('out');
        await once(socket, 'message');
      },
    ]);
    await closed;
    expect(server.readyState).toBe(WebSocket.CLOSED);
  });

  it('do not stay open by pings of a WebSocket', async () => {
    const { socket, server, ended } = await overWebSocket(command('exec'), 'v5.channel.k8s.io');
    await started();
    await once(socket, 'message');
    await clock.advance(almostMs);
    const pinged = once(server, 'ping');
    socket.ping();
    await pinged;
    await clock.advance(1);
    await ended;
    expect(driver.signal?.aborted).toBe(true);
  });

  it.each(['SPDY', 'SPDY in a WebSocket'])('of forwarded ports over %s end without frames', async (way) => {
    const tunnel = await overWebSocket(forward(), 'SPDY/3.1+portforward.k8s.io');
    const { connection, ended } =
      way === 'SPDY'
        ? overSpdy(forward(), 'portforward.k8s.io')
        : { connection: new SpdyConnection(createWebSocketStream(tunnel.socket), { role: 'client' }), ended: tunnel.ended };
    const headers = { port: '80', requestID: '1' };
    const streams = ['error', 'data'].map((streamType) => connection.open({ ...headers, streamType }));
    for (const stream of streams) stream.on('error', () => undefined);
    await Promise.all(streams.map((stream) => stream.replied));
    await expectEndAfter(ended, [() => connection.ping()]);
    await connection.closed;
  });

  it('of forwarded ports in WebSocket channels end without messages', async () => {
    const { socket, server, ended } = await overWebSocket(forward(), 'v4.channel.k8s.io');
    await started();
    await expectEndAfter(ended, [
      // a message without data, to which the pod answers nothing
      async () => {
        const received = once(server, 'message');
        socket.send(Buffer.from('\0'));
        await received;
      },
      async () => {
        const sent = new Promise((resolve) => {
          socket.on('message', (message: Buffer) => {
            if (message.toString() === '\0out') resolve(undefined);
          });
        });
        driver.port.write('out');
        await sent;
      },
    ]);
  });

  it('leave no timer after their end', async () => {
    const { connection, ended } = overSpdy(forward(), 'portforward.k8s.io');
    connection.destroy();
    await ended;
    expect(clock.pending).toBe(0);
  });
});
