import { isIPv4, isIPv6 } from 'node:net';
import { parseCIDR } from './cidr.ts';
import { parseIPNumber } from './ip-number.ts';

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

/** Returns the number of a valid IPv4 address. */
function ipv4Number(text: string): number {
  let [value, byte] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2e) [value, byte] = [value * 256 + byte, 0];
    else byte = byte * 10 + code - 0x30;
  }
  return value * 256 + byte;
}

/** An IPv6 address without the prefix of IPv4-mapped addresses, or an IPv4 address. */
interface ParsedAddress {
  readonly text: string;
  readonly v4: number | undefined;
  readonly v6: bigint;
}
let lastParsed: ParsedAddress = { text: '', v4: undefined, v6: 0n };

/** Validation calls several matchers with one address after another. */
function parsedAddress(text: string): ParsedAddress {
  if (lastParsed.text === text) return lastParsed;
  if (isIPv4(text)) return (lastParsed = { text, v4: ipv4Number(text), v6: 0n });
  const v6 = parseIPNumber(text) ?? 0n;
  return (lastParsed = { text, v4: v6 >> 32n === 0xffffn ? Number(v6 & 0xffff_ffffn) : undefined, v6 });
}

/**
 * Returns a function that returns whether a network of either family contains a valid address. IPv4-mapped IPv6 addresses are IPv4 addresses. An EndpointSlice
 * has up to 100,000 addresses; a BlockList, which makes an object for each call, took thirty times as long.
 */
function addressMatcher(v4: string, v6: string): (address: string) => boolean {
  const [net = '', prefix = ''] = v4.split('/');
  const size = 2 ** (32 - Number(prefix));
  const first = Math.floor(ipv4Number(net) / size);
  const [net6 = '', prefix6 = ''] = v6.split('/');
  const shift = BigInt(128 - Number(prefix6));
  const first6 = (parseIPNumber(net6) ?? 0n) >> shift;
  return (address) => {
    const parsed = parsedAddress(address);
    return parsed.v4 === undefined ? parsed.v6 >> shift === first6 : Math.floor(parsed.v4 / size) === first;
  };
}
export const isUnspecified = addressMatcher('0.0.0.0/32', '::/128');
export const isLoopback = addressMatcher('127.0.0.0/8', '::1/128');
export const isLinkLocal = addressMatcher('169.254.0.0/16', 'fe80::/10');
export const isLinkLocalMulticast = addressMatcher('224.0.0.0/24', 'ff02::/16');
