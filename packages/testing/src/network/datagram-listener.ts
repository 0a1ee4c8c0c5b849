import { spawn } from 'node:child_process';
import { once } from 'node:events';

const groups = { 4: ['239.1.2.3', '0.0.0.0'], 6: ['ff05::1:3', '::%eth0'] } as const;
const program = (family: 4 | 6) => `
  const socket = require('node:dgram').createSocket('udp${family}');
  socket.on('message', (text) => { console.log(String(text)); if (String(text) === 'end') process.exit(0); });
  socket.bind(9000, () => { socket.addMembership(...${JSON.stringify(groups[family])}); console.log('ready'); });`;

/**
 * Listens on UDP port 9000 of all addresses in a network namespace, and in the multicast group 239.1.2.3 or ff05::1:3. Resolves when it listens.
 * The returned function resolves after the datagram `end` with the texts of all datagrams, one on each line, after the line `ready`.
 */
export async function listenForDatagrams(netns: string, family: 4 | 6): Promise<() => Promise<string>> {
  const child = spawn('nsenter', [`--net=${netns}`, process.execPath, '-e', program(family)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const received: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => received.push(text));
  const closed = once(child, 'close');
  await once(child.stdout, 'data');
  return async () => {
    await closed;
    return received.join('');
  };
}
