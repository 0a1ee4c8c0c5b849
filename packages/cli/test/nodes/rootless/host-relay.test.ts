import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { systemClock } from '@oarlock/primitives/clock';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { firstNameServer, HostRelay, type PublishedPort } from '../../../src/nodes/rootless/host-relay.ts';
import { gatewayAddress } from '../../../src/nodes/rootless/node-address.ts';
import { relayConnection } from '../../../src/nodes/rootless/relay/dial-client.ts';
import { DialServer } from '../../../src/nodes/rootless/relay/dial-server.ts';

let directory: string;
let uplink: DialServer;
let relay: HostRelay;
let clock: FakeClock;
const warnings: string[] = [];
const cleanups: (() => unknown)[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'host-relay-'));
  uplink = new DialServer({ clock: systemClock, places: 100, resolve: (target) => target });
  await uplink.listen(join(directory, 'uplink.sock'));
  warnings.length = 0;
  clock = new FakeClock();
  relay = new HostRelay({
    clock,
    places: 100,
    uplink: join(directory, 'uplink.sock'),
    onWarning: (warning) => warnings.push(warning),
  });
  await relay.listen(join(directory, 'host.sock'));
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await relay.close();
  await uplink.close();
  await rm(directory, { recursive: true });
});

async function greeter(greeting: string): Promise<number> {
  const server = createServer((socket) => socket.end(greeting)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  return (server.address() as AddressInfo).port;
}
const read = async (port: number) => text(connect(port, '127.0.0.1'));
const published = (port: number, to: number): PublishedPort => ({
  address: '127.0.0.1',
  port,
  target: { protocol: 'tcp', address: '127.0.0.1', port: to },
});
async function freePort(): Promise<number> {
  const port = await greeter('');
  await cleanups.pop()?.();
  return port;
}

it('leads clients of the host to the node', async () => {
  expect(await read(await relay.publish(published(0, await greeter('hello'))))).toBe('hello');
});

it('publishes exactly the ports of the Services, and reports those that are in use', async () => {
  const [one, other] = [await greeter('one'), await greeter('other')];
  const port = await freePort();
  await relay.publishServices([published(port, one), published(other, one)]);
  expect(await read(port)).toBe('one');
  expect(warnings).toEqual([expect.stringMatching(new RegExp(`^cannot publish tcp port ${other} at 127.0.0.1: .*EADDRINUSE`))]);
  await relay.publishServices([published(port, other)]);
  expect(await read(port)).toBe('other');
  await relay.publishServices([]);
  await expect(read(port)).rejects.toThrow('ECONNREFUSED');
});

it('publishes a port of a Service when the program that has it ends, and reports it once', async () => {
  const port = await greeter('another cluster');
  const [end] = cleanups;
  const services = [published(port, await greeter('hello'))];
  await relay.publishServices(services);
  await clock.advance(5_000);
  await relay.publishServices(services);
  expect(warnings).toHaveLength(1);
  await end?.();
  await clock.advance(5_000);
  await vi.waitFor(async () => expect(await read(port)).toBe('hello'));
});

/** Returns what the node reads from a port of the host at an address. */
async function readFromNode(address: string, port: number): Promise<string> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) =>
    relayConnection(client, { path: join(directory, 'host.sock'), target: { protocol: 'tcp', address, port } }),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  return read((server.address() as AddressInfo).port);
}

it('connects the node to the host, whose loopback address is the gateway', async () => {
  expect(await readFromNode(gatewayAddress, await greeter('from the host'))).toBe('from the host');
});

it.each(['127.0.0.1', '127.1.2.3', '0.0.0.0', '224.0.0.1'])('does not connect the node to %s', async (address) => {
  await expect(readFromNode(address, await greeter('from the host'))).rejects.toThrow('ECONNRESET');
});

it('takes the first IPv4 name server', () => {
  expect(firstNameServer('# nameserver 1.1.1.1\nnameserver fe80::1\n nameserver 10.0.0.2\nnameserver 10.0.0.3\n')).toBe('10.0.0.2');
  expect(firstNameServer('search example.org\n')).toBeUndefined();
});
