import { parseCIDR } from '@oarlock/api/net/cidr';
import { familyOf, formatIPNumber, parseIPNumber } from '@oarlock/api/net/ip-number';
import { NetworkError } from '@oarlock/spi/network';

export interface Range {
  readonly family: 4 | 6;
  readonly first: bigint;
  /** The prefix length. */
  readonly bits: number;
}
export const wholeBits = (family: 4 | 6): number => (family === 4 ? 32 : 128);
export const sizeOf = ({ family, bits }: Range): bigint => 1n << BigInt(wholeBits(family) - bits);

/** Parses an IP address. @throws NetworkError `InvalidConfig` if the text is not an address */
export function parseAddress(text: string): { readonly family: 4 | 6; readonly value: bigint } {
  const value = parseIPNumber(text);
  if (value === undefined) throw new NetworkError('InvalidConfig', `not an IP address: ${JSON.stringify(text)}`);
  return { family: familyOf(text) === 'IPv4' ? 4 : 6, value };
}

/** Formats an address as the kernel prints it (RFC 5952). */
export const formatAddress = (family: 4 | 6, value: bigint): string => formatIPNumber(value, family === 4 ? 'IPv4' : 'IPv6');

/** Parses a CIDR. @throws NetworkError `InvalidConfig` if the text is not a CIDR */
export function parseRange(cidr: string): Range {
  const range = parseCIDR(cidr);
  if (range === undefined) throw new NetworkError('InvalidConfig', `invalid CIDR: ${JSON.stringify(cidr)}`);
  return { family: range.family === 'IPv4' ? 4 : 6, first: range.first, bits: range.prefixLength };
}
export const formatRange = ({ family, first, bits }: Range): string => `${formatAddress(family, first)}/${bits}`;
export const contains = (range: Range, family: 4 | 6, value: bigint): boolean =>
  range.family === family && value >= range.first && value < range.first + sizeOf(range);
