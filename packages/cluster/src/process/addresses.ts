import { networkInterfaces } from 'node:os';
import { connect } from 'node:net';
import { parseCIDR } from '@oarlock/api/net/cidr';
import { formatIPNumber } from '@oarlock/api/net/ip-number';

/** Timeout of a connection to one of several servers in milliseconds. */
const connectTimeoutMs = 2000;

/**
 * Returns the address at which other machines most likely reach this machine: the first IPv4 address that is neither loopback nor link-local. An
 * address that is assigned to `lo` is the last choice; pods can reach it on a machine without a network.
 */
export function primaryAddress(interfaces = networkInterfaces()): string {
  const all = Object.values(interfaces).flatMap((list) => list ?? []);
  const candidates = all.filter(({ family, address }) => family === 'IPv4' && !/^(127|169\.254)\./.test(address));
  return (candidates.find(({ internal }) => !internal) ?? candidates[0])?.address ?? '127.0.0.1';
}

/**
 * Returns the local address of a connection to a server, which is the address that the server sees unless NAT changes it.
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

/** Returns the local address of a connection to the first server that can be reached within two seconds. @throws Error of the last server */
export async function addressTowardsAny(servers: readonly string[], signal: AbortSignal): Promise<string> {
  let failure: unknown = new Error('the list of servers is empty');
  for (const server of servers) {
    try {
      return await addressTowards(server, AbortSignal.any([signal, AbortSignal.timeout(connectTimeoutMs)]));
    } catch (error) {
      signal.throwIfAborted();
      failure = error;
    }
  }
  throw failure;
}

/** Returns the n-th address of a CIDR: `nthAddress('10.96.0.0/16', 1)` is 10.96.0.1. @throws RangeError if the text is not a CIDR */
export function nthAddress(cidr: string, n: number): string {
  const range = parseCIDR(cidr);
  if (range === undefined) throw new RangeError(`invalid CIDR address: ${cidr}`);
  return formatIPNumber(range.first + BigInt(n), range.family);
}
