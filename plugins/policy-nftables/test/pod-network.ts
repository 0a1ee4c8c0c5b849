import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Packet, PacketFamily } from '@oarlock/spi/policy.contract';
import { caseEnds } from '@oarlock/spi/policy.contract.cases';
import { ip } from '@oarlock/testing/own-network';
import { execa } from 'execa';

/** What runs in the namespace of an end: it sends, answers, and talks when it is told to, a line of JSON each. */
const agent = `
const net = require('node:net'), dgram = require('node:dgram');
const server = net.createServer((socket) => { socket.on('error', () => {}); socket.pipe(socket); });
server.listen({ port: 8080, host: '::' }, () => console.log('{"up":true}'));
const talks = new Map();
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, order, address, port, protocol, family } = JSON.parse(line);
  const done = (value) => console.log(JSON.stringify({ id, value }));
  if (order === 'send' && protocol === 'UDP') {
    const socket = dgram.createSocket(family === 4 ? 'udp4' : 'udp6');
    socket.on('error', () => {});
    socket.send('x', port, address, () => { socket.close(); done(true); });
  } else if (order === 'send') {
    const socket = net.connect({ host: address, port });
    socket.on('error', () => {});
    setImmediate(() => { done(true); socket.destroy(); });
  } else if (order === 'open') {
    const socket = net.connect({ host: address, port });
    socket.on('error', () => {});
    talks.set(id, socket);
    socket.on('connect', () => done(true));
  } else if (order === 'echo') {
    const socket = talks.get(port);
    socket.once('data', () => done(true));
    socket.write('x');
  } else if (order === 'close') { talks.get(port).destroy(); talks.delete(port); done(true); }
});
`;

class End {
  readonly #process: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting = new Map<number, (value: boolean) => void>();
  #next = 0;

  private constructor(child: ChildProcess, lines: Interface) {
    this.#process = child;
    this.#lines = lines;
    lines.on('line', (line) => {
      const { id, value } = JSON.parse(line) as { readonly id: number; readonly value: boolean };
      this.#waiting.get(id)?.(value);
      this.#waiting.delete(id);
    });
  }

  static async begin(name: string, addresses: readonly string[], gateways: readonly string[]): Promise<End> {
    const child = spawn('unshare', ['--net', process.execPath, '-e', agent], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (child.stdout === null) throw new Error('the agent has no output');
    const lines = createInterface({ input: child.stdout });
    await once(lines, 'line');
    const inside = (...args: string[]) => execa('nsenter', [`--net=/proc/${child.pid}/ns/net`, 'ip', ...args]);
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(child.pid));
    ip('link', 'set', name, 'up');
    await inside('link', 'set', 'lo', 'up');
    await inside('link', 'set', 'eth0', 'up');
    for (const [at, address] of addresses.entries()) {
      const gateway = gateways[at] ?? '';
      const bits = address.includes(':') ? 128 : 32;
      const family = bits === 128 ? ['-6'] : ['-4'];
      const quick = bits === 128 ? ['nodad'] : [];
      ip('address', 'add', `${gateway}/${bits}`, 'dev', name, ...quick);
      ip(...family, 'route', 'add', `${address}/${bits}`, 'dev', name);
      await inside('address', 'add', `${address}/${bits}`, 'dev', 'eth0', ...quick);
      await inside(...family, 'route', 'add', `${gateway}/${bits}`, 'dev', 'eth0');
      await inside(...family, 'route', 'add', 'default', 'via', gateway, 'dev', 'eth0');
    }
    return new End(child, lines);
  }

  ask(order: string, more: Readonly<Record<string, string | number>>): { readonly id: number; readonly answer: Promise<boolean> } {
    const id = ++this.#next;
    const answer = new Promise<boolean>((resolve) => this.#waiting.set(id, resolve));
    this.#process.stdin?.write(`${JSON.stringify({ id, order, ...more })}\n`);
    return { id, answer };
  }

  async close(): Promise<void> {
    this.#lines.close();
    this.#process.kill('SIGKILL');
    if (this.#process.exitCode === null && this.#process.signalCode === null) await once(this.#process, 'exit');
  }
}

const observer = 'observer';
const families = [4, 6] as const;
const addressOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.1.${at + 1}` : `fd00:99::1:${at + 1}`);
const gatewayOf = (at: number, family: PacketFamily) => (family === 4 ? `10.99.2.${at + 1}` : `fd00:99::2:${at + 1}`);
const word = ({ from, to, door, family }: Packet): string => {
  const at = (key: string) =>
    addressOf(
      caseEnds.findIndex((end) => end.key === key),
      family,
    );
  return `${at(from)} . ${at(to)} . ${door.protocol.toLowerCase()} . ${door.port}`;
};

/**
 * The ends of the table of cases behind cables of their own, and a table of rules before and behind the ones that are tried: what was seen
 * by the first and not by the second was dropped between them, however slow the machine is.
 */
export class PodNetwork {
  readonly #ends = new Map<string, End>();

  static async begin(): Promise<PodNetwork> {
    const network = new PodNetwork();
    ip('link', 'set', 'lo', 'up');
    await execa('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1']);
    for (const [at, { key }] of caseEnds.entries())
      network.#ends.set(
        key,
        await End.begin(
          `end${at}`,
          families.map((family) => addressOf(at, family)),
          families.map((family) => gatewayOf(at, family)),
        ),
      );
    const sets = families
      .flatMap((family) => ['seen', 'passed'].map((name) => ({ name: `${name}${family}`, type: family === 4 ? 'ipv4_addr' : 'ipv6_addr' })))
      .map(({ name, type }) => `set ${name} { type ${type} . ${type} . inet_proto . inet_service; size 65535; flags dynamic; }`);
    const chain = (name: string, priority: number) => `chain ${name} {
      type filter hook forward priority ${priority}; policy accept;
      ct state new add @${name}4 { ip saddr . ip daddr . meta l4proto . th dport }
      ct state new add @${name}6 { ip6 saddr . ip6 daddr . meta l4proto . th dport }
    }`;
    await execa('nft', ['-f', '-'], {
      input: `table inet ${observer} {\n${sets.join('\n')}\n${chain('seen', -50)}\n${chain('passed', 50)}\n}\n`,
    });
    return network;
  }

  address(key: string, family: PacketFamily): string {
    return addressOf(
      caseEnds.findIndex((end) => end.key === key),
      family,
    );
  }

  async send(packets: readonly Packet[]): Promise<readonly boolean[]> {
    const flush = ['seen', 'passed'].flatMap((name) => families.map((family) => `flush set inet ${observer} ${name}${family}\n`));
    await execa('nft', ['-f', '-'], { input: flush.join('') });
    await Promise.all(
      packets.map(
        ({ from, to, door, family }) =>
          this.#end(from).ask('send', { address: this.address(to, family), port: door.port, protocol: door.protocol, family }).answer,
      ),
    );
    const crossed = packets.filter(({ from, to }) => from !== to);
    for (;;) {
      // a packet meets both in one go, and what the kernel lists is of one moment
      const { seen, passed } = await observed();
      // what an end sends to itself does not leave it
      if (crossed.every((packet) => seen.has(word(packet))))
        return packets.map((packet) => packet.from === packet.to || passed.has(word(packet)));
    }
  }

  async converse({ from, to, door, family }: Packet): Promise<{ echo(): Promise<boolean>; close(): Promise<void> }> {
    const end = this.#end(from);
    const { id, answer } = end.ask('open', { address: this.address(to, family), port: door.port });
    await answer;
    return {
      echo: () => end.ask('echo', { port: id }).answer,
      close: async () => {
        await end.ask('close', { port: id }).answer;
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#ends.values()].map((end) => end.close()));
  }

  #end(key: string): End {
    const end = this.#ends.get(key);
    if (end === undefined) throw new Error(`there is no ${key}`);
    return end;
  }
}

interface SetEntry {
  readonly name: string;
  readonly elem?: readonly {
    readonly concat?: readonly unknown[];
    readonly elem?: { readonly val: { readonly concat: readonly unknown[] } };
  }[];
}

async function observed(): Promise<{ readonly seen: ReadonlySet<string>; readonly passed: ReadonlySet<string> }> {
  const { stdout } = await execa('nft', ['-j', 'list', 'table', 'inet', observer]);
  const { nftables } = JSON.parse(stdout) as { readonly nftables: readonly { readonly set?: SetEntry }[] };
  const found = { seen: new Set<string>(), passed: new Set<string>() };
  for (const { set } of nftables)
    for (const { concat, elem } of set?.elem ?? [])
      found[set?.name.startsWith('seen') === true ? 'seen' : 'passed'].add((concat ?? elem?.val.concat ?? []).join(' . '));
  return found;
}
