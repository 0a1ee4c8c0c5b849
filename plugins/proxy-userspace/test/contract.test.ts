import { readdir, readFile, readlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { silentLogger } from '@oarlock/primitives/logger';
import { proxyContract } from '@oarlock/spi/proxy/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { UserspaceProxy } from '../src/userspace-proxy.ts';

const listening = '0A'; // TCP_LISTEN in /proc/net/tcp

/** Counts the listening sockets and the UDP sockets of this process. Connections are not counted: they close later. */
async function sockets(): Promise<number> {
  const links = await Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  const own = new Set(links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]));
  const lines = async (table: string) =>
    (await readFile(`/proc/self/net/${table}`, 'utf8'))
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/));
  const tcp = (await lines('tcp')).filter(([, , , state, , , , , , inode]) => state === listening && own.has(inode));
  const udp = (await lines('udp')).filter(([, , , , , , , , , inode]) => own.has(inode));
  return tcp.length + udp.length;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

// other systems can bind only 127.0.0.1
const unavailable = process.platform === 'linux' ? {} : { unavailable: 'addresses of 127.0.0.0/8 can be bound on Linux only' };

proxyContract(
  'proxy-userspace',
  async () => {
    const clock = new FakeClock();
    const proxy = new UserspaceProxy({ clock, log: silentLogger, nodePortAddress: '127.0.0.1' });
    return {
      proxy,
      podAddresses: [1, 2, 3, 4].map((n) => `127.130.7.${n}`),
      serviceAddresses: [1, 2, 3, 4].map((n) => `127.97.7.${n}`),
      externalAddress: '127.98.7.1',
      nodePorts: { address: '127.0.0.1', ports: [await freePort(), await freePort()] },
      clientAddresses: ['127.99.7.1', '127.99.7.2'],
      advanceTime: (seconds) => clock.advance(seconds * 1000),
      countResources: async () => ({ sockets: await sockets() }),
      dispose: () => proxy.stop(),
    };
  },
  unavailable,
);
