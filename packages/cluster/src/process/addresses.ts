import { networkInterfaces } from 'node:os';
import { connect, createServer, isIPv4, type AddressInfo } from 'node:net';

/**
 * Returns the address that other machines most likely reach this one at: the first IPv4 address that is neither loopback nor link-local. An
 * address that was assigned to `lo` is the last choice; it is what pods can reach on a machine without a network.
 */
export function primaryAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const candidates = all.filter(({ family, address }) => family === 'IPv4' && !/^(127|169\.254)\./.test(address));
  return (candidates.find(({ internal }) => !internal) ?? candidates[0])?.address ?? '127.0.0.1';
}

/**
 * Returns the local address of a connection to a server: the one that the server sees unless NAT changes it.
 * @throws Error if the server cannot be reached
 */
export function addressTowards(server: string, signal: AbortSignal): Promise<string> {
  const { hostname, port } = new URL(server);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? 443 : Number(port), signal });
    socket.once('error', reject);
    socket.once('connect', () => {
      const { localAddress = '' } = socket;
      socket.destroy();
      resolve(localAddress.replace(/^::ffff:(?=\d+\.)/, ''));
    });
  });
}

/** Returns the n-th address of a range: `nthAddress('10.96.0.0/16', 1)` is 10.96.0.1. */
export function nthAddress(cidr: string, n: number): string {
  const [base = '', bits = '32'] = cidr.split('/');
  if (!isIPv4(base)) return nthIPv6(base, Number(bits), n);
  const start = base.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - Number(bits));
  const value = start - (start % size) + n;
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}

function nthIPv6(base: string, prefix: number, n: number): string {
  const [head = '', tail = ''] = base.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === '' ? [] : tail.split(':');
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
  const host = BigInt(128 - prefix);
  const value = ((groups.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n) >> host) << host) + BigInt(n);
  return Array.from({ length: 8 }, (_, index) => ((value >> BigInt(112 - index * 16)) & 0xffffn).toString(16))
    .join(':')
    .replace(/(^|:)0(:0)+(:|$)/, '::');
}

/** Returns a port that is free now: the URL of the server is written to files before it listens. */
export function freePort(address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, address, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
