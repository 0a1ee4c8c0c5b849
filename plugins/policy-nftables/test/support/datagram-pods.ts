import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Node } from './node.ts';
import { cable } from './pod-end.ts';

/** Sends `TO PORT FAMILY TEXT` of each line from one port, answers messages to port 9000, and prints both kinds of messages. */
const program = `
  const dgram = require('node:dgram');
  const sockets = { 4: dgram.createSocket('udp4'), 6: dgram.createSocket({ type: 'udp6', ipv6Only: true }) };
  const server = dgram.createSocket('udp6');
  server.on('message', (text, { address, port }) => { console.log('received ' + text); server.send('of ' + text, port, address); });
  for (const socket of Object.values(sockets)) socket.on('message', (text) => console.log('answer ' + text)).bind(5000);
  server.bind(9000, '::', () => console.log('ready'));
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const [to, port, family, text] = line.split(' ');
    sockets[family].send(text, Number(port), to);
  });`;

/** A network namespace with a program that exchanges datagrams. Its addresses are `10.98.0.AT` and `fd00:98::AT`. */
export interface DatagramPod {
  readonly received: readonly string[];
  /** Resolves when the program has printed the line. */
  until(line: string): Promise<void>;
  send(to: string, family: 4 | 6, text: string, port?: number): void;
}

/** The pods of a test, which end together. */
export class DatagramPods {
  readonly #children: ChildProcess[] = [];
  readonly #links: string[] = [];

  async connect(node: Node, at: number): Promise<DatagramPod> {
    const child = spawn('unshare', ['--net', process.execPath, '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.push(child);
    const lines = createInterface({ input: child.stdout });
    const received: string[] = [];
    await once(lines, 'line');
    lines.on('line', (line) => received.push(line));
    this.#links.push(`end${at}`);
    await cable(node, `end${at}`, child.pid ?? 0, [`10.98.0.${at}`, `fd00:98::${at}`], [`10.98.1.${at}`, `fd00:98:1::${at}`]);
    return {
      received,
      async until(text) {
        while (!received.includes(text)) await once(lines, 'line');
      },
      send: (to, family, text, port = 9000) => child.stdin.write(`${to} ${port} ${family} ${text}\n`),
    };
  }

  async end(): Promise<void> {
    // the kernel removes those of an ended namespace later
    for (const link of this.#links.splice(0)) Node.here().ip('link', 'del', link);
    for (const child of this.#children.splice(0)) {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
  }
}
