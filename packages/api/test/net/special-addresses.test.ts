import { BlockList } from 'node:net';
import { expect, it } from 'vitest';
import { isLinkLocal, isLinkLocalMulticast, isLoopback, isUnspecified } from '../../src/net/ip.ts';

const matchers = [
  { matches: isUnspecified, networks: ['0.0.0.0/32', '::/128'] },
  { matches: isLoopback, networks: ['127.0.0.0/8', '::1/128'] },
  { matches: isLinkLocal, networks: ['169.254.0.0/16', 'fe80::/10'] },
  { matches: isLinkLocalMulticast, networks: ['224.0.0.0/24', 'ff02::/16'] },
] as const;
const edges = [
  ...['0.0.0.0', '0.0.0.1', '126.255.255.255', '127.0.0.0', '127.255.255.255', '128.0.0.0', '169.253.255.255', '169.254.0.0'],
  ...['169.254.255.255', '169.255.0.0', '223.255.255.255', '224.0.0.0', '224.0.0.255', '224.0.1.0', '255.255.255.255', '10.0.0.1'],
];
const edges6 = [
  ...['::', '::1', '::2', '0:0:0:0:0:0:0:1', 'fe7f:ffff::1', 'fe80::', 'FE80::1', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fec0::'],
  ...['ff01::1', 'ff02::', 'ff02::1:ff00:1', 'ff03::1', '2001:db8::1', '64:ff9b::127.0.0.1', '::127.0.0.1'],
  ...edges.map((address) => `::ffff:${address}`),
];

it.each(matchers)('$networks contains the same addresses as in a BlockList', ({ matches, networks: [v4, v6] }) => {
  const list = new BlockList();
  const subnet = (text: string, family: 'ipv4' | 'ipv6') => {
    const [net = '', prefix = ''] = text.split('/');
    list.addSubnet(net, Number(prefix), family);
  };
  subnet(v4, 'ipv4');
  subnet(v6, 'ipv6');
  for (const address of edges) expect([address, matches(address)]).toEqual([address, list.check(address, 'ipv4')]);
  for (const address of edges6) expect([address, matches(address)]).toEqual([address, list.check(address, 'ipv6')]);
  expect([...edges, ...edges6].some(matches)).toBe(true);
});
