import { isIPv4 } from 'node:net';
import { formatIPNumber, parseIPNumber } from './ip-number.ts';

/** An IP address in a notation that netutils.ParseIPSloppy accepts. */
export interface SloppyIP {
  /** True if the notation has a dotted part whose octets have leading zeros, which netip.ParseAddr rejects. */
  readonly hasLeadingZeros: boolean;
  /** True for an IPv4-mapped IPv6 address such as `::ffff:10.0.0.1`. */
  readonly isMapped: boolean;
  readonly isIPv6: boolean;
  /** The address as Go's net.IP.String formats it: a mapped address as IPv4, IPv6 by RFC 5952. */
  readonly canonical: string;
}

/** The length of the longest text that is parsed; an address with more characters only has more leading zeros. */
const maxLength = 256;

/** Parses an address whose octets may have leading zeros, which are decimal. Returns undefined for other text. */
export function parseIPSloppy(text: string): SloppyIP | undefined {
  if (text.length > maxLength) return undefined;
  // most addresses: canonical IPv4, which has one form
  if (isIPv4(text)) return { hasLeadingZeros: false, isMapped: false, isIPv6: false, canonical: text };
  const start = text.lastIndexOf(':') + 1;
  let [normal, hasLeadingZeros] = [text, false];
  if (text.includes('.')) {
    const octets = text.slice(start).split('.');
    hasLeadingZeros = octets.some((octet) => /^0\d/.test(octet));
    if (hasLeadingZeros) normal = text.slice(0, start) + octets.map((octet) => octet.replace(/^0+(?=\d)/, '')).join('.');
  }
  const value = parseIPNumber(normal);
  if (value === undefined) return undefined;
  const isIPv6 = start > 0;
  const isMapped = isIPv6 && value >> 32n === 0xffffn;
  const canonical = isMapped ? formatIPNumber(value & 0xffff_ffffn, 'IPv4') : formatIPNumber(value, isIPv6 ? 'IPv6' : 'IPv4');
  return { hasLeadingZeros, isMapped, isIPv6, canonical };
}
