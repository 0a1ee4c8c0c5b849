import { addressOfCIDR, cidrContains, cidrSize, formatCIDR, parseCIDR, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { describe, expect, it } from 'vitest';

describe('parseCIDR', () => {
  // the table of Go's TestParseCIDR (net/ip_test.go), and what netip.ParseAddr and dtoi accept and reject
  it.each([
    ['135.104.0.0/32', '135.104.0.0/32'],
    ['0.0.0.0/24', '0.0.0.0/24'],
    ['135.104.0.0/24', '135.104.0.0/24'],
    ['135.104.0.1/32', '135.104.0.1/32'],
    ['135.104.0.1/24', '135.104.0.0/24'],
    ['255.255.255.255/0', '0.0.0.0/0'],
    ['::1/128', '::1/128'],
    ['abcd:2345::/127', 'abcd:2345::/127'],
    ['abcd:2345::/65', 'abcd:2345::/65'],
    ['abcd:2300::/24', 'abcd:2300::/24'],
    ['abcd:2345::/24', 'abcd:2300::/24'],
    ['2001:DB8::/48', '2001:db8::/48'],
    ['2001:DB8::1/48', '2001:db8::/48'],
    ['2001:0db8:0:0:1::/80', '2001:db8:0:0:1::/80'],
    ['10.0.0.0/08', '10.0.0.0/8'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['::ffff:10.1.2.3/95', '::fffe:0:0/95'],
    ['::ffff:10.1.2.3/64', '::/64'],
  ])('accepts %s as %s', (text, expected) => {
    const cidr = parseCIDR(text);
    expect(cidr && formatCIDR(cidr)).toBe(expected);
  });

  it.each([
    '192.168.1.1/255.255.255.0',
    '192.168.1.1/35',
    '2001:db8::1/-1',
    '2001:db8::1/-0',
    '2001:db8::1/129',
    '-0.0.0.0/32',
    '0.-1.0.0/32',
    '0.0.-2.0/32',
    '0.0.0.-3/32',
    '0.0.0.0/-0',
    '127.000.000.001/32',
    '127.0.0.1/+8',
    '127.0.0.1/8 ',
    ' 127.0.0.1/8',
    '127.0.0.1/',
    '127.0.0.1',
    '127.0.0.1/8/8',
    'fe80::1%eth0/64',
    '10.0.0/8',
    '/8',
    '',
  ])('rejects %j', (text) => {
    expect(parseCIDR(text)).toBeUndefined();
  });

  it('returns address, first and last address, and size', () => {
    expect(parseCIDR('10.1.2.3/30')).toEqual({
      family: 'IPv4',
      address: 0x0a010203n,
      first: 0x0a010200n,
      last: 0x0a010203n,
      prefixLength: 30,
    });
    expect(parseCIDR('::/0')).toMatchObject({ first: 0n, last: (1n << 128n) - 1n });
    expect([parseCIDR('10.0.0.0/8'), parseCIDR('fd00::/64')].map((cidr) => cidr && cidrSize(cidr))).toEqual([1n << 24n, 1n << 64n]);
    expect([addressOfCIDR('10.1.2.3/8'), addressOfCIDR('fd00::/64'), addressOfCIDR('10.1.2.3')]).toEqual(['10.1.2.3', 'fd00::', undefined]);
  });
});

describe('parseCIDRSloppy', () => {
  it.each([
    ['127.000.000.001/32', '127.0.0.1/32'],
    ['010.244.000.000/016', '10.244.0.0/16'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['2001:0db8:00a0::/48', '2001:db8:a0::/48'],
    ['0000:0000::/0', '::/0'],
    ['::ffff:010.0.0.0/104', '10.0.0.0/8'],
  ])('accepts %s as %s: leading zeros are decimal', (text, expected) => {
    const cidr = parseCIDRSloppy(text);
    expect(cidr && formatCIDR(cidr)).toBe(expected);
  });
  it.each(['0127.0.0.256/8', '1.2.3/24', '1.2.3.4/33', 'a/8', ''])('rejects %j', (text) => {
    expect(parseCIDRSloppy(text)).toBeUndefined();
  });
});

describe('cidrContains', () => {
  it.each([
    ['172.16.0.0/12', '172.16.0.0', true],
    ['172.16.0.0/12', '172.31.255.255', true],
    ['172.16.0.0/12', '172.32.0.0', false],
    ['192.168.0.0/32', '192.168.0.1', false],
    ['0.0.0.0/0', '::1', false],
    ['::/0', '10.0.0.1', false],
    ['10.0.0.0/8', '::ffff:10.1.2.3', true],
    ['::ffff:10.0.0.0/104', '10.1.2.3', true],
    ['fd00::/8', 'fdff:ffff::1', true],
    ['fd00::/8', 'fe00::1', false],
    ['fd00::/8', 'not an address', false],
  ] as const)('%s contains %s: %s', (text, address, expected) => {
    const cidr = parseCIDR(text);
    expect(cidr && cidrContains(cidr, address)).toBe(expected);
  });
});
