import { networkInterfaces } from 'node:os';
import { createServer, isIPv4, type AddressInfo } from 'node:net';

/**
 * The address of this machine that others are most likely to reach: the first that is neither loopback nor link-local, rather of an interface that leads
 * somewhere than one that was given to `lo`, which pods of a machine without a network reach as well.
 */
export function primaryAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const able = all.filter(({ family, address }) => family === 'IPv4' && !/^(127|169\.254)\./.test(address));
  return (able.find(({ internal }) => !internal) ?? able[0])?.address ?? '127.0.0.1';
}

/** Every address of this machine, for the names of its serving certificate. */
export function ownAddresses(): string[] {
  return [
    ...new Set(
      Object.values(networkInterfaces())
        .flatMap((list) => list ?? [])
        .map(({ address }) => address),
    ),
  ]
    .filter((address) => !address.startsWith('fe80:'))
    .sort();
}

/** The n-th address of a range: `nthAddress('10.96.0.0/16', 1)` is 10.96.0.1. */
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

/** A port that is free at the moment: the address of the server is written down before it listens. */
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
