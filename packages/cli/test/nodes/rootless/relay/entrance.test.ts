import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DatagramFlows } from '../../../../src/nodes/rootless/relay/datagram-flows.ts';
import { DialServer } from '../../../../src/nodes/rootless/relay/dial-server.ts';
import { createEntrance } from '../../../../src/nodes/rootless/relay/entrance.ts';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';

const places = 16;
const attacker = '127.0.0.2';
const victim = '127.0.0.3';
let directory: string;
let path: string;
const cleanups: (() => unknown)[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'entrance-'));
  path = join(directory, 'relay.sock');
  const relay = new DialServer({ clock: new FakeClock(), places, resolve: (target) => target });
  await relay.listen(path);
  cleanups.push(() => relay.close());
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await rm(directory, { recursive: true });
});

async function listen(server: Server): Promise<number> {
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  return (server.address() as AddressInfo).port;
}
async function udpSocket(address: string): Promise<DatagramSocket> {
  const socket = createSocket('udp4');
  socket.bind(0, address);
  await once(socket, 'listening');
  cleanups.push(() => socket.close());
  return socket;
}

it('keeps connections for other pods when one pod opens more than its share', async () => {
  const greeter = await listen(createServer((socket) => socket.on('error', () => {}).write('hello')));
  const target = { protocol: 'tcp', address: '127.0.0.1', port: greeter } as const;
  const port = await listen(
    createEntrance({ path, shares: new SourceShares(places), sourceOf: (address) => address, targetOf: async () => target }),
  );
  /** Resolves with what the relay did. A connection that it accepted stays open. */
  const open = async (localAddress: string): Promise<{ readonly result: string; readonly socket: Socket }> => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    cleanups.push(() => socket.destroy());
    const result = await once(socket, 'data').then(
      ([data]) => String(data),
      (error: NodeJS.ErrnoException) => error.code ?? '',
    );
    return { result, socket };
  };
  const attack = await Promise.all(Array.from({ length: 3 * places }, () => open(attacker)));
  const held = attack.filter(({ result }) => result === 'hello');
  expect(held).toHaveLength(places / 2);
  expect(attack.filter(({ result }) => result === 'ECONNRESET')).toHaveLength(3 * places - places / 2);
  expect((await open(victim)).result).toBe('hello');
  expect((await open(attacker)).result).toBe('ECONNRESET');
  const [{ socket } = { socket: undefined }, { socket: another } = { socket: undefined }] = held;
  for (const each of [socket, another]) {
    each?.destroy();
    await once(each as Socket, 'close');
  }
  await expect.poll(async () => (await open(attacker)).result).toBe('hello');
});

it('keeps flows of datagrams for other pods when one pod sends from many ports', async () => {
  const server = await udpSocket('127.0.0.1');
  server.on('message', (datagram, { port, address }) => server.send(`re: ${datagram.toString()}`, port, address));
  const front = createSocket('udp4');
  front.bind(0, '0.0.0.0');
  await once(front, 'listening');
  const target = { protocol: 'udp', address: '127.0.0.1', port: server.address().port } as const;
  const shares = new SourceShares(places);
  const flows = new DatagramFlows(front, {
    clock: new FakeClock(),
    path,
    shares,
    sourceOf: (address) => address,
    targetOf: async () => target,
  });
  cleanups.push(() => flows.close());
  const ask = async (socket: DatagramSocket, question: string) => {
    socket.send(question, front.address().port, '127.0.0.1');
    const [answer] = (await once(socket, 'message')) as [Buffer];
    return answer.toString();
  };
  const ofVictim = await udpSocket(victim);
  expect(await ask(ofVictim, 'first')).toBe('re: first');
  // each flow of the attacker is answered: it takes the place of the attacker's oldest one
  for (let count = 0; count < 3 * places; count += 1) expect(await ask(await udpSocket(attacker), `${count}`)).toBe(`re: ${count}`);
  expect(await ask(ofVictim, 'second')).toBe('re: second');
  expect(await ask(await udpSocket(victim), 'another')).toBe('re: another');
  let free = 0;
  while (shares.take('other')) free += 1;
  expect(free).toBeGreaterThan(0);
});
