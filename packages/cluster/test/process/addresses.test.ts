import { createServer, isIP, type AddressInfo } from 'node:net';
import type { NetworkInterfaceInfo } from 'node:os';
import { addressTowards, nthAddress, primaryAddress } from '@oarlock/cluster/process/addresses';
import { describe, expect, it } from 'vitest';

describe('addresses', () => {
  it.each([
    ['10.96.0.0/16', 1, '10.96.0.1'],
    ['10.96.0.0/16', 10, '10.96.0.10'],
    ['10.96.0.0/16', 256, '10.96.1.0'],
    ['10.96.0.5/16', 1, '10.96.0.1'],
    ['127.96.0.0/16', 10, '127.96.0.10'],
    ['192.168.7.128/25', 1, '192.168.7.129'],
    ['255.255.255.0/24', 255, '255.255.255.255'],
    ['0.0.0.0/0', 1, '0.0.0.1'],
    ['10.0.0.7/32', 0, '10.0.0.7'],
    ['fd00:10:96::/112', 1, 'fd00:10:96::1'],
    ['fd00:10:96::/112', 10, 'fd00:10:96::a'],
    ['fd00::/108', 1, 'fd00::1'],
    ['2001:db8:0:1::/64', 10, '2001:db8:0:1::a'],
    ['fd00:0:0:7::/64', 1, 'fd00:0:0:7::1'],
    ['fd00:10:96::ff00/112', 1, 'fd00:10:96::1'],
    ['::/0', 1, '::1'],
  ])('nthAddress of %s, %i is %s', (range, n, address) => {
    const found = nthAddress(range, n);
    expect(isIP(found)).toBe(isIP(address));
    expect(canonical(found)).toBe(canonical(address));
  });

  it('primaryAddress returns an IP address', () => {
    expect(isIP(primaryAddress())).not.toBe(0);
  });
  it('addressTowards returns the address that the server sees', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const seen = new Promise((resolve) => {
      server.once('connection', (socket) => resolve(socket.remoteAddress));
    });
    const { port } = server.address() as AddressInfo;
    expect(await addressTowards(`https://127.0.0.1:${port}`, AbortSignal.timeout(10_000))).toBe(await seen);
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });
});

/** The canonical form of an address, as URL writes it. */
const canonical = (address: string) => (isIP(address) === 6 ? new URL(`http://[${address}]`).hostname : address);

const ip = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  netmask: '',
  mac: '',
  internal,
  cidr: null,
  family: 'IPv4',
});
const lo = ip('127.0.0.1', true);

it.each([
  ['of an interface that leads somewhere', [lo, ip('192.0.0.8', true)], [ip('169.254.7.7'), ip('10.1.2.3')], '10.1.2.3'],
  ['given to lo, where nothing leads anywhere', [lo, ip('192.0.0.8', true)], [], '192.0.0.8'],
  ['of loopback, where there is no other', [lo], [], '127.0.0.1'],
] as const)('primaryAddress returns one %s', (_, own, outside, wanted) => {
  expect(primaryAddress({ lo: [...own], eth0: [...outside] })).toBe(wanted);
});
