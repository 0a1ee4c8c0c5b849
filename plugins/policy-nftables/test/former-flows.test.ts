import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { namespaces, networkPolicies } from '@oarlock/api/resources';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';
import { Node } from './support/node.ts';
import { cable } from './support/pod-end.ts';

/** Sends `TO FAMILY TEXT` of each line from one port, answers messages to port 9000, and prints both kinds of messages. */
const program = `
  const dgram = require('node:dgram');
  const sockets = { 4: dgram.createSocket('udp4'), 6: dgram.createSocket({ type: 'udp6', ipv6Only: true }) };
  const server = dgram.createSocket('udp6');
  server.on('message', (text, { address, port }) => { console.log('received ' + text); server.send('of ' + text, port, address); });
  for (const socket of Object.values(sockets)) socket.on('message', (text) => console.log('answer ' + text)).bind(5000);
  server.bind(9000, '::', () => console.log('ready'));
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const [to, family, text] = line.split(' ');
    sockets[family].send(text, 9000, to);
  });`;

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('flows of an ended pod', () => {
    let api: MemoryApi;
    let informers: SharedInformerFactory;
    let policies: NftablesPolicies;
    const children: ChildProcess[] = [];
    const links: string[] = [];

    beforeEach(async () => {
      api = memoryApi({ clock: new FakeClock() });
      api.seed(namespaces, { metadata: { name: 'open' } }, { metadata: { name: 'closed' } });
      api.seed(networkPolicies, { metadata: { namespace: 'closed', name: 'deny' }, spec: { podSelector: {}, policyTypes: ['Ingress'] } });
      informers = new SharedInformerFactory({ client: api.client(), clock: systemClock });
      informers.start();
      policies = new NftablesPolicies({ informers, client: api.client(), clock: systemClock, log: silentLogger, tracer: noTracer });
      policies.startForNode('here');
    });
    afterEach(async () => {
      // the kernel removes those of an ended namespace later
      for (const link of links.splice(0)) Node.here().ip('link', 'del', link);
      for (const child of children.splice(0)) {
        child.kill('SIGKILL');
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      }
      await policies.stop();
      await policies.clear();
      await informers.stop();
      await api.stop();
    });

    async function connect(node: Node, at: number) {
      const child = spawn('unshare', ['--net', process.execPath, '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
      children.push(child);
      const lines = createInterface({ input: child.stdout });
      const received: string[] = [];
      await once(lines, 'line');
      lines.on('line', (line) => received.push(line));
      links.push(`end${at}`);
      await cable(node, `end${at}`, child.pid ?? 0, [`10.98.0.${at}`, `fd00:98::${at}`], [`10.98.1.${at}`, `fd00:98:1::${at}`]);
      const until = async (text: string) => {
        while (!received.includes(text)) await once(lines, 'line');
      };
      return { received, until, send: (to: string, family: 4 | 6, text: string) => child.stdin.write(`${to} ${family} ${text}\n`) };
    }

    it.each([
      { family: 4, address: '10.98.0.2' },
      { family: 6, address: 'fd00:98::2' },
    ] as const)('do not reach the next pod with its IPv$family address past its policies', async ({ family, address }) => {
      const node = Node.here();
      const [client, pod] = [await connect(node, 1), await connect(node, 2)];
      await policies.protect({ namespace: 'open', name: 'former', uid: 'former', labels: {}, ips: [address] });
      client.send(address, family, 'to-the-former-pod');
      await client.until('answer of to-the-former-pod');
      await policies.protect({ namespace: 'closed', name: 'next', uid: 'next', labels: {}, ips: [address] });
      client.send(address, family, 'to-the-next-pod');
      // packets of one sender to one receiver keep their order
      pod.send(family === 4 ? '10.98.0.1' : 'fd00:98::1', family, 'from-the-next-pod');
      await client.until('received from-the-next-pod');
      await pod.until('answer of from-the-next-pod');
      expect(pod.received).toEqual(['received to-the-former-pod', 'answer of from-the-next-pod']);
    });
  });
