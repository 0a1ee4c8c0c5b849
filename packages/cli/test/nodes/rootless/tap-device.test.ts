import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { gatewayAddress, tapGateway } from '../../../src/nodes/rootless/node-address.ts';
import { openNodeNamespaces, releaseNodeNamespaces, type NodeNamespaces } from '../../../src/nodes/rootless/node-namespaces.ts';
import {
  endEarlierTapDevice,
  startTapDevice,
  tapPrograms,
  type TapDevice,
  type TapProgram,
} from '../../../src/nodes/rootless/tap-device.ts';
import { loadUplinkRules } from '../../../src/nodes/rootless/uplink-rules.ts';
import { podNetwork } from './support/pod-network.ts';

const run = promisify(execFile);
const [host, other] = ['192.0.2.2', '192.0.2.7'];
const [webPort, namePort, otherNamePort] = [8080, 5301, 5302];

/** A machine beside the host. Its servers answer with the address of the client. */
const otherMachine = `
const { createSocket } = require('node:dgram');
const ports = [${namePort}, ${otherNamePort}];
require('node:http').createServer((request, response) => response.end(request.socket.remoteAddress)).listen(${webPort}, '0.0.0.0', async () => {
  for (const port of ports) {
    const socket = createSocket('udp4');
    socket.on('message', (text, client) => socket.send(port + ' for ' + client.address, client.port, client.address));
    await new Promise((bound) => socket.bind(port, bound));
  }
  console.log('listening');
});`;
/** Prints the answers to datagrams from one port to two. */
const askBoth = `
const socket = require('node:dgram').createSocket('udp4');
const answers = [];
socket.on('message', (text) => {
  answers.push(String(text));
  if (answers.length === 2) { console.log(answers.sort().join()); process.exit(); }
});
socket.bind(5000, () => { for (const port of [${namePort}, ${otherNamePort}]) socket.send('name', port, '${other}'); });`;
/** Prints what an HTTP server answers, or why there is none. */
const get = (address: string, port: number) => `
require('node:http').get({ host: '${address}', port: ${port}, timeout: 1000 }, (response) => response.pipe(process.stdout))
  .on('timeout', function () { this.destroy(new Error('no answer')); }).on('error', ({ message, code }) => console.log(code ?? message));`;

/** Opens as many connections from an address as it can, up to 40, and prints their number; ends when its input does. ADDRESS */
const hold = `
const { connect } = require('node:net');
const localAddress = process.argv[1];
let open = 0;
const next = () => open === 40 ? console.log(open) :
  connect({ port: ${webPort}, host: '${other}', localAddress }).on('connect', () => { open += 1; next(); }).on('error', () => console.log(open));
next();
process.stdin.on('end', () => process.exit()).resume();`;

async function start([file = '', ...args]: readonly string[], line: RegExp): Promise<ChildProcess> {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const text of createInterface({ input: child.stdout })) if (line.test(text)) return child;
  throw new Error(`${file} ended`);
}

function tapDeviceTests(): void {
  let neighbor: ChildProcess;
  let directory: string;
  let namespaces: NodeNamespaces;
  let device: TapDevice | undefined;
  const inside = async (words: readonly string[], ...command: readonly string[]) => {
    const [file = '', ...args] = [...words, ...command];
    return (await run(file, args)).stdout.trim();
  };
  const onNode = (...command: readonly string[]) => inside(namespaces.enterNode, ...command);
  const inPod = (...command: readonly string[]) => onNode('ip', 'netns', 'exec', 'pod', ...command);

  beforeAll(async () => {
    ip('link', 'set', 'lo', 'up');
    await writeFile('/proc/sys/net/ipv4/ping_group_range', '0 2147483647');
    neighbor = await start(['unshare', '--net', 'sh', '-c', 'ip link set lo up; echo ready; exec sleep 2147483647'], /^ready$/);
    ip('link', 'add', 'ext0', 'type', 'veth', 'peer', 'name', 'ext1', 'netns', String(neighbor.pid));
    ip('addr', 'add', `${host}/24`, 'dev', 'ext0');
    ip('link', 'set', 'ext0', 'up');
    ip('route', 'add', 'default', 'via', other);
    const there = ['nsenter', '--target', String(neighbor.pid), '--net', '--'];
    await inside(there, 'sh', '-c', `ip addr add ${other}/24 dev ext1; ip link set ext1 up`);
    const servers = await start([...there, process.execPath, '-e', otherMachine], /^listening$/);
    neighbor.once('exit', () => servers.kill('SIGKILL'));
  });
  afterAll(async () => {
    neighbor.kill('SIGKILL');
    await once(neighbor, 'exit');
  });
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tap-device-'));
    namespaces = await openNodeNamespaces(directory);
    await onNode('sh', '-c', podNetwork);
    device = undefined;
  });
  afterEach(async () => {
    device?.process.kill('SIGKILL');
    await releaseNodeNamespaces(directory);
    await rm(directory, { recursive: true });
  });

  const isMissing = (program: TapProgram) => findProgram(program) === undefined && process.env['CI'] !== 'true';
  for (const program of tapPrograms)
    describe.skipIf(isMissing(program))(`the TAP device of ${program}`, () => {
      beforeEach(async () => {
        device = await startTapDevice(directory, namespaces, program);
        await loadUplinkRules(namespaces.enterUplink, { wayOut: 'tap', places: 100 });
      });

      it('lets the node and its pods reach other machines by TCP, UDP and ICMP, with the address of the host', async () => {
        for (const from of [onNode, inPod]) {
          expect(await from(process.execPath, '-e', get(other, webPort))).toBe(host);
          // the relay knows one destination of a source
          expect(await from(process.execPath, '-e', askBoth)).toBe(`${namePort} for ${host},${otherNamePort} for ${host}`);
          expect(await from('busybox', 'ping', '-c', '1', '-W', '10', other)).toContain('1 packets received');
        }
      });

      it('does not lead to the loopback address of the host', async () => {
        const server = createServer((_request, response) => response.end('reached')).listen(webPort, '0.0.0.0');
        await once(server, 'listening');
        try {
          expect(await inPod(process.execPath, '-e', get(host, webPort))).toBe('reached');
          for (const address of [tapGateway, '203.0.113.3', '127.0.0.1', '0.0.0.0', gatewayAddress])
            expect(await inPod(process.execPath, '-e', get(address, webPort))).not.toContain('reached');
          // the node itself reaches the gateway, where the relay would listen, but no program behind the device
          expect(await onNode(process.execPath, '-e', get(tapGateway, webPort))).not.toContain('reached');
        } finally {
          server.close();
        }
      });

      it('gives one pod at most half of the connections, and several pods no more than they leave to others', async () => {
        await loadUplinkRules(namespaces.enterUplink, { wayOut: 'tap', places: 32 });
        const addresses = Array.from({ length: 11 }, (_, index) => `10.244.0.${100 + index}`);
        for (const address of addresses) await onNode('ip', '-n', 'pod', 'addr', 'add', `${address}/24`, 'dev', 'eth0');
        const holders: ChildProcess[] = [];
        const greedy = async (address = '') => {
          const [file = '', ...args] = [...namespaces.enterNode, 'ip', 'netns', 'exec', 'pod', process.execPath, '-e', hold, address];
          const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
          holders.push(child);
          return Number(String((await once(child.stdout, 'data'))[0]));
        };
        const end = async () => {
          for (const child of holders.splice(0)) {
            const exit = once(child, 'exit');
            child.stdin?.end();
            await exit;
          }
        };
        try {
          const counts: number[] = [];
          for (const address of addresses.slice(0, -1)) counts.push(await greedy(address));
          expect(counts).toEqual([16, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
          // pods without any connection have their share, and so has the node
          expect(await inPod(process.execPath, '-e', get(other, webPort))).toBe(host);
          expect(await onNode(process.execPath, '-e', get(other, webPort))).toBe(host);
          await end();
          await vi.waitFor(async () => {
            const free = await greedy(addresses.at(-1));
            await end();
            expect(free).toBe(16);
          });
        } finally {
          await end();
        }
      });

      it('carries nothing when the node is started again without it', async () => {
        await loadUplinkRules(namespaces.enterUplink, { wayOut: 'relay', places: 8 });
        const { stdout } = await run('sh', [
          '-c',
          '"$@" || true',
          'sh',
          ...namespaces.enterNode,
          'busybox',
          'ping',
          '-c',
          '1',
          '-W',
          '2',
          other,
        ]);
        expect(stdout).toContain(' 0 packets received');
      });

      it('is replaced at the next start when it outlived its node', async () => {
        const earlier = device?.process.pid ?? 0;
        await endEarlierTapDevice(directory);
        await vi.waitFor(() => expect(startTime(earlier)).toBeUndefined());
        device = await startTapDevice(directory, namespaces, program);
        expect(await inPod(process.execPath, '-e', get(other, webPort))).toBe(host);
      });

      it('reports why it does not start', async () => {
        await expect(startTapDevice(directory, namespaces, program)).rejects.toThrow(
          new RegExp(`^${program} ended: .*(?:tap0|tun|busy)`, 'is'),
        );
      });
    });
}

if (isInNetworkNamespace) tapDeviceTests();
else inNetworkNamespace(import.meta.url);
