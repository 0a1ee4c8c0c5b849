import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { gatewayAddress, nodeAddress, relayPort } from '../../../src/nodes/rootless/node-address.ts';
import { relayTable } from '../../../src/nodes/rootless/relay/original-destinations.ts';
import { namespaceProblem, openNodeNamespaces, releaseNodeNamespaces } from '../../../src/nodes/rootless/node-namespaces.ts';
import { loadUplinkRules } from '../../../src/nodes/rootless/uplink-rules.ts';
import { podNetwork } from './support/pod-network.ts';

const run = promisify(execFile);
const problem = await namespaceProblem();
/** Prints the datagrams that reach the relay until the last one. */
const listen = `
const socket = require('node:dgram').createSocket('udp4');
socket.on('message', (text) => {
  console.log(String(text));
  if (String(text) === 'end') socket.close();
});
socket.bind(${relayPort}, '${gatewayAddress}', () => console.log('listening'));`;
const send = `
const { createSocket } = require('node:dgram');
const sockets = new Map();
const send = async (text, from, address) => {
  if (!sockets.has(from)) await new Promise((bound) => sockets.set(from, createSocket('udp4').bind(from, bound)));
  await new Promise((sent, failed) => sockets.get(from).send(text, 53, address, (error) => (error ? failed(error) : sent())));
};
(async () => {
  await send('first of 5000', 5000, '203.0.113.1');
  await send('to another', 5000, '203.0.113.2');
  await send('second of 5000', 5000, '203.0.113.1');
  await send('first of 5001', 5001, '203.0.113.2');
  await send('end', 5002, '203.0.113.3');
  for (const socket of sockets.values()) socket.close();
})();`;
/** Prints the source of each connection that reaches the relay. */
const printSources = `
const server = require('node:net').createServer((socket) => {
  console.log(socket.remoteAddress);
  socket.resetAndDestroy();
});
server.listen(${relayPort}, '${gatewayAddress}', () => console.log('listening'));`;
const serviceAddress = '10.96.0.7';
/** The rules of a Service whose EndpointSlice names the gateway. */
const serviceRules = `
table ip service {
  chain output {
    type nat hook output priority -100;
    ip daddr ${serviceAddress} dnat to ${gatewayAddress}
  }
}`;
/** Prints why a port of an address cannot be connected to. */
const printFailure = (address: string) =>
  `require('node:net').connect(7180, '${address}').on('error', ({ code }) => console.log(code)).resume();`;
const floodPorts = 12_000;
/** Sends a datagram from each of many ports. */
const flood = `
const { createSocket } = require('node:dgram');
(async () => {
  for (let port = 20000; port < ${20_000 + floodPorts}; port += 1) {
    const socket = createSocket('udp4');
    await new Promise((bound) => socket.bind(port, bound));
    await new Promise((sent) => socket.send('x', 53, '203.0.113.1', sent));
    socket.close();
  }
})();`;

describe.skipIf(problem !== undefined && process.env['CI'] !== 'true')(
  `namespaces of a node${problem === undefined ? '' : ` (${problem})`}`,
  () => {
    let directory: string;
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'node-namespaces-'));
    });
    afterEach(async () => {
      await releaseNodeNamespaces(directory);
      await rm(directory, { recursive: true });
    });
    const inside = async ([file = '', ...words]: readonly string[], command: readonly string[]) =>
      (await run(file, [...words, ...command])).stdout;
    const holder = async () => (JSON.parse(await readFile(join(directory, 'namespaces.json'), 'utf8')) as { readonly pid: number }).pid;
    async function kill(pid: number): Promise<void> {
      process.kill(pid, 'SIGKILL');
      // the holder is not a child that Node.js still knows
      for (;;) {
        const state = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => ') X');
        if (/\) [ZX]/.test(state)) return;
        await new Promise(setImmediate);
      }
    }

    it('have root, addresses and a router, and stay for the next start', async () => {
      const { enterNode, enterUplink } = await openNodeNamespaces(directory);
      expect(await inside(enterNode, ['id', '-u'])).toBe('0\n');
      expect(await inside(enterNode, ['ip', '-br', 'address', 'show', 'uplink0'])).toContain(` ${nodeAddress}/24 `);
      expect(await inside(enterNode, ['cat', '/etc/resolv.conf'])).toMatch(new RegExp(`^nameserver ${gatewayAddress}$`, 'm'));
      expect(await inside(enterUplink, ['ip', '-br', 'address', 'show', 'node0'])).toContain(` ${gatewayAddress}/24 `);
      const net = await inside(enterNode, ['readlink', '/proc/self/ns/net']);
      const again = await openNodeNamespaces(directory);
      expect(await inside(again.enterNode, ['readlink', '/proc/self/ns/net'])).toBe(net);
    });

    it('relay datagrams of one source to one destination, and drop those to others', async () => {
      const { enterNode, enterUplink } = await openNodeNamespaces(directory);
      await loadUplinkRules(enterUplink, { wayOut: 'relay', places: 100 });
      const [file = '', ...words] = enterUplink;
      const listener = spawn(file, [...words, process.execPath, '-e', listen], { stdio: ['ignore', 'pipe', 'inherit'] });
      const exited = once(listener, 'exit');
      const lines = createInterface({ input: listener.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe('listening');
      await inside(enterNode, [process.execPath, '-e', send]);
      await exited;
      const received: string[] = [];
      for (let line = await lines.next(); line.done !== true; line = await lines.next()) received.push(line.value);
      expect(received).toEqual(['first of 5000', 'second of 5000', 'first of 5001', 'end']);
    });

    it('keep the addresses of pods on the way to the relay, which masquerading would hide', async () => {
      const { enterNode, enterUplink } = await openNodeNamespaces(directory);
      await loadUplinkRules(enterUplink, { wayOut: 'relay', places: 100 });
      await inside(enterNode, ['sh', '-c', podNetwork]);
      const [file = '', ...words] = enterUplink;
      const relay = spawn(file, [...words, process.execPath, '-e', printSources], { stdio: ['ignore', 'pipe', 'inherit'] });
      const lines = createInterface({ input: relay.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe('listening');
      const connectTo = ['-e', `require('node:net').connect(443, '203.0.113.1').on('error', () => {})`];
      await inside(enterNode, ['ip', 'netns', 'exec', 'pod', process.execPath, ...connectTo]);
      expect((await lines.next()).value).toBe('10.244.0.7');
      await inside(enterNode, [process.execPath, ...connectTo]);
      expect((await lines.next()).value).toBe(nodeAddress);
      relay.kill('SIGKILL');
      await once(relay, 'exit');
    });

    it('let the node reach the loopback address of the host by the gateway, and not through a Service', async () => {
      const { enterNode, enterUplink } = await openNodeNamespaces(directory);
      await loadUplinkRules(enterUplink, { wayOut: 'relay', places: 100 });
      await inside(enterNode, ['nft', serviceRules]);
      const [file = '', ...words] = enterUplink;
      const relay = spawn(file, [...words, process.execPath, '-e', printSources], { stdio: ['ignore', 'pipe', 'inherit'] });
      const lines = createInterface({ input: relay.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe('listening');
      const connect = (address: string) => inside(enterNode, [process.execPath, '-e', printFailure(address)]);
      await connect(gatewayAddress);
      expect((await lines.next()).value).toBe(nodeAddress);
      expect(await connect(serviceAddress)).toBe('ECONNREFUSED\n');
      relay.kill('SIGKILL');
      await once(relay, 'exit');
    });

    it('have a rate of new flows for each pod, so that one does not fill the map of destinations', async () => {
      const { enterNode, enterUplink } = await openNodeNamespaces(directory);
      await loadUplinkRules(enterUplink, { wayOut: 'relay', places: 100 });
      await inside(enterNode, ['sh', '-c', podNetwork]);
      await inside(enterNode, ['ip', 'netns', 'exec', 'pod', process.execPath, '-e', flood]);
      const elements = async (source: string) => {
        const listed = await inside(enterUplink, ['nft', 'list', 'map', 'ip', relayTable, 'destinations']);
        return listed.split(`${source} . udp`).length - 1;
      };
      const ofPod = await elements('10.244.0.7');
      expect(ofPod).toBeGreaterThanOrEqual(2000);
      expect(ofPod).toBeLessThan(floodPorts);
      await inside(enterNode, [process.execPath, '-e', send]);
      expect(await elements(nodeAddress)).toBe(3);
    });

    it('are found again after the end of their holder by another program of the node, and otherwise created', async () => {
      const { enterNode } = await openNodeNamespaces(directory);
      const net = await inside(enterNode, ['readlink', '/proc/self/ns/net']);
      const [file = '', ...words] = enterNode;
      const program = spawn(file, [...words, 'sh', '-c', 'echo started; exec sleep 1000'], { stdio: ['ignore', 'pipe', 'ignore'] });
      await once(program.stdout, 'data');
      await kill(await holder());
      const found = await openNodeNamespaces(directory);
      expect(await inside(found.enterNode, ['readlink', '/proc/self/ns/net'])).toBe(net);
      program.kill('SIGKILL');
      await once(program, 'exit');
      await kill(await holder());
      const created = await openNodeNamespaces(directory);
      expect(await inside(created.enterNode, ['ip', '-br', 'address', 'show', 'uplink0'])).toContain(nodeAddress);
    });
  },
);
