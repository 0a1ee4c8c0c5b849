import { isIP } from 'node:net';
import { nthAddress, ownAddresses, primaryAddress } from '@oarlock/cluster/addresses';
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
  ])('of %s, number %i is %s', (range, n, address) => {
    const found = nthAddress(range, n);
    expect(isIP(found)).toBe(isIP(address));
    expect(canonical(found)).toBe(canonical(address));
  });

  it('of this machine are addresses, each once', () => {
    const own = ownAddresses();
    expect(own).toContain('127.0.0.1');
    for (const address of own) expect(isIP(address), address).not.toBe(0);
    expect(new Set(own).size).toBe(own.length);
    expect(isIP(primaryAddress())).not.toBe(0);
  });
});

/** The one way to write an address that URL has. */
const canonical = (address: string) => (isIP(address) === 6 ? new URL(`http://[${address}]`).hostname : address);
