import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DatagramFlows } from '../../../../src/nodes/rootless/relay/datagram-flows.ts';
import { relayConnection } from '../../../../src/nodes/rootless/relay/dial-client.ts';
import { DialServer } from '../../../../src/nodes/rootless/relay/dial-server.ts';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import type { Target } from '../../../../src/nodes/rootless/relay/target.ts';

let directory: string;
let clock: FakeClock;
let relay: DialServer;
let path: string;
const cleanups: (() => unknown)[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'relay-'));
  path = join(directory, 'relay.sock');
  clock = new FakeClock();
  relay = new DialServer({ clock, places: 100, resolve: (target) => (target.port === 1 ? undefined : target) });
  await relay.listen(path);
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await relay.close();
  await rm(directory, { recursive: true });
});

async function tcpServer(onConnection: (socket: Socket) => void): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, onConnection);
  return listen(server);
}
async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  return (server.address() as AddressInfo).port;
}
const entrance = (target: Target) =>
  listen(createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => relayConnection(client, { path, target })));
const tcp = (port: number): Target => ({ protocol: 'tcp', address: '127.0.0.1', port });

async function udpSocket(): Promise<DatagramSocket> {
  const socket = createSocket('udp4');
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
}

it('passes bytes in both directions, and the end of one direction alone', async () => {
  const echo = await tcpServer((socket) => {
    let received = 0;
    socket.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.once('end', () => socket.end(`received ${received}`));
  });
  const client = connect({ port: await entrance(tcp(echo)), host: '127.0.0.1', allowHalfOpen: true });
  client.end('x'.repeat(3_000_000));
  expect(await text(client)).toBe('received 3000000');
});

it('resets a client whose target rejects the connection or must not be reached', async () => {
  const closed = await tcpServer(() => {});
  await cleanups.pop()?.();
  for (const target of [tcp(closed), tcp(1)]) {
    const client = connect({ port: await entrance(target), host: '127.0.0.1' });
    const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  }
});

it('ends a connection that does not name its target', async () => {
  const silent = connect(path);
  await once(silent, 'connect');
  const ended = once(silent, 'close');
  silent.resume();
  const wrong = connect(path);
  wrong.write('x'.repeat(100));
  await once(wrong.resume(), 'close');
  await clock.advance(30_000);
  await ended;
});

it('answers datagrams of each client, and ends a flow that is silent for a minute', async () => {
  const seen = new Set<number>();
  const server = await udpSocket();
  server.on('message', (datagram, { port, address }) => {
    seen.add(port);
    server.send(`re: ${datagram.toString()}`, port, address);
  });
  const front = await udpSocket();
  const flows = new DatagramFlows(front, {
    clock,
    path,
    shares: new SourceShares(100),
    sourceOf: (address) => address,
    targetOf: async () => ({ protocol: 'udp', address: '127.0.0.1', port: server.address().port }),
  });
  cleanups.push(
    () => server.close(),
    () => flows.close(),
  );
  const clients = [await udpSocket(), await udpSocket()];
  cleanups.push(() => clients.forEach((client) => client.close()));
  const request = async (client: DatagramSocket, question: string) => {
    client.send(question, front.address().port, '127.0.0.1');
    const [answer] = (await once(client, 'message')) as [Buffer];
    return answer.toString();
  };
  const [first, second] = clients as [DatagramSocket, DatagramSocket];
  expect(await request(first, 'one')).toBe('re: one');
  expect(await request(second, 'two')).toBe('re: two');
  expect(await request(first, 'three')).toBe('re: three');
  expect(seen.size).toBe(2);
  await clock.advance(60_000);
  expect(await request(first, 'four')).toBe('re: four');
  expect(seen.size).toBe(3);
});
