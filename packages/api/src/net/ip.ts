import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** Returns 4 or 6, or 0 if the text is not an IP address. Addresses with a zone (`fe80::1%eth0`) are not. */
export function ipFamily(text: string): 0 | 4 | 6 {
  if (isIPv4(text)) return 4;
  return isIPv6(text) && !text.includes('%') ? 6 : 0;
}

/** Returns the family of `address/prefix`, or 0 if the text is not a CIDR. */
export function cidrFamily(text: string): 0 | 4 | 6 {
  const slash = text.indexOf('/');
  const prefix = text.slice(slash + 1);
  const family = slash < 0 || !/^(0|[1-9][0-9]{0,2})$/.test(prefix) ? 0 : ipFamily(text.slice(0, slash));
  return family !== 0 && Number(prefix) <= (family === 4 ? 32 : 128) ? family : 0;
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
