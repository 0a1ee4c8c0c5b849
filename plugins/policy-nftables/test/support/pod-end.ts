import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import { execa } from 'execa';
import type { Node } from './node.ts';

/** The program in the namespace of an endpoint: it sends, answers and talks on command, one line of JSON each. */
const agent = `
const net = require('node:net'), dgram = require('node:dgram'), { spawn } = require('node:child_process');
const server = net.createServer((socket) => { socket.on('error', () => {}); socket.pipe(socket); });
server.listen({ port: 8080, host: '::' }, () => console.log('{"up":true}'));
const talks = new Map();
const perl = 'use Socket qw(:all); $| = 1; while (<STDIN>) { my ($f, $a, $h) = split; my $v = $f == 6;'
  + ' socket(my $s, $v ? AF_INET6 : AF_INET, SOCK_RAW, 132) or die "socket: $!";'
  + ' my $to = $v ? pack_sockaddr_in6(0, inet_pton(AF_INET6, $a)) : pack_sockaddr_in(0, inet_aton($a));'
  + ' send($s, pack("H*", $h), 0, $to) or die "send: $!"; print "sent\\n"; }';
let sender;
const sent = [];
/** Each line that the sender says is for the eldest that waits. */
const sendRaw = (family, address, hex, done) => {
  if (sender === undefined) {
    sender = spawn('perl', ['-e', perl], { stdio: ['pipe', 'pipe', 'inherit'] });
    require('node:readline').createInterface({ input: sender.stdout }).on('line', () => sent.shift()());
  }
  sent.push(done);
  sender.stdin.write(family + ' ' + address + ' ' + hex + '\\n');
};
const crc32c = (bytes) => {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
};
let from = 40000;
/** The first packet of an association (RFC 9260, INIT): node speaks no SCTP. */
const init = (port) => {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(from++, 0);
  packet.writeUInt16BE(port, 2);
  packet.writeUInt8(1, 12);
  packet.writeUInt16BE(20, 14);
  packet.writeUInt32BE(1, 16);
  packet.writeUInt32BE(65536, 20);
  packet.writeUInt16BE(1, 24);
  packet.writeUInt16BE(1, 26);
  packet.writeUInt32BE(1, 28);
  packet.writeUInt32LE(crc32c(packet), 8);
  return packet.toString('hex');
};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, order, address, port, protocol, family } = JSON.parse(line);
  const done = (value) => console.log(JSON.stringify({ id, value }));
  if (order === 'send' && protocol === 'UDP') {
    const socket = dgram.createSocket(family === 4 ? 'udp4' : 'udp6');
    socket.on('error', () => {});
    socket.send('x', port, address, () => { socket.close(); done(true); });
  } else if (order === 'send' && protocol === 'SCTP') {
    sendRaw(family, address, init(port), () => done(true));
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

export class End {
  readonly #process: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting = new Map<number, (value: boolean) => void>();
  /** IPv4 first. */
  readonly addresses: readonly string[];
  #next = 0;

  private constructor(child: ChildProcess, lines: Interface, addresses: readonly string[]) {
    this.#process = child;
    this.#lines = lines;
    this.addresses = addresses;
    lines.on('line', (line) => {
      const { id, value } = JSON.parse(line) as { readonly id: number; readonly value: boolean };
      this.#waiting.get(id)?.(value);
      this.#waiting.delete(id);
    });
  }

  /** Starts an endpoint in a new namespace; `connect` connects it and returns its addresses. */
  static async begin(connect: (pid: number) => Promise<readonly string[]>): Promise<End> {
    const child = spawn('unshare', ['--net', process.execPath, '-e', agent], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (child.stdout === null) throw new Error('the agent has no output');
    const lines = createInterface({ input: child.stdout });
    await once(lines, 'line');
    const pid = child.pid ?? 0;
    await execa('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', 'link', 'set', 'lo', 'up']);
    return new End(child, lines, await connect(pid));
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

/** Creates a veth pair with this name that ends on a node. */
export async function cable(
  node: Node,
  name: string,
  pid: number,
  addresses: readonly string[],
  gateways: readonly string[],
): Promise<readonly string[]> {
  const inside = (...args: string[]) => execa('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', ...args]);
  node.ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid));
  node.ip('link', 'set', name, 'up');
  await inside('link', 'set', 'eth0', 'up');
  for (const [at, address] of addresses.entries()) {
    const gateway = gateways[at] ?? '';
    const bits = address.includes(':') ? 128 : 32;
    const family = bits === 128 ? ['-6'] : ['-4'];
    const quick = bits === 128 ? ['nodad'] : [];
    node.ip('address', 'add', `${gateway}/${bits}`, 'dev', name, ...quick);
    node.ip(...family, 'route', 'add', `${address}/${bits}`, 'dev', name);
    await inside('address', 'add', `${address}/${bits}`, 'dev', 'eth0', ...quick);
    await inside(...family, 'route', 'add', `${gateway}/${bits}`, 'dev', 'eth0');
    await inside(...family, 'route', 'add', 'default', 'via', gateway, 'dev', 'eth0');
  }
  return addresses;
}
