import { BlockList, isIPv4, isIPv6 } from 'node:net';
import { parseCIDR } from './cidr.ts';

/** Returns 4 or 6, or 0 if the text is not an IP address. Addresses with a zone (`fe80::1%eth0`) are not. */
export function ipFamily(text: string): 0 | 4 | 6 {
  if (isIPv4(text)) return 4;
  return isIPv6(text) && !text.includes('%') ? 6 : 0;
}

/**
 * Returns the family of a CIDR as validation of API objects accepts it, or 0 for other text: a prefix length with leading zeros is rejected, and
 * the family is that of the notation, so that an IPv4-mapped IPv6 network is IPv6.
 */
export function cidrFamily(text: string): 0 | 4 | 6 {
  return parseCIDR(text) === undefined || /\/0\d/.test(text) ? 0 : ipFamily(text.slice(0, text.indexOf('/')));
}

function addressMatcher(...subnets: readonly (readonly [string, number, 'ipv4' | 'ipv6'])[]): (address: string) => boolean {
  const list = new BlockList();
  for (const [net, prefix, family] of subnets) list.addSubnet(net, prefix, family);
  return (address) => list.check(address, ipFamily(address) === 6 ? 'ipv6' : 'ipv4');
}
export const isUnspecified = addressMatcher(['0.0.0.0', 32, 'ipv4'], ['::', 128, 'ipv6']);
export const isLoopback = addressMatcher(['127.0.0.0', 8, 'ipv4'], ['::1', 128, 'ipv6']);
export const isLinkLocal = addressMatcher(['169.254.0.0', 16, 'ipv4'], ['fe80::', 10, 'ipv6']);
export const isLinkLocalMulticast = addressMatcher(['224.0.0.0', 24, 'ipv4'], ['ff02::', 16, 'ipv6']);
