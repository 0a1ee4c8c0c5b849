import { cidrSize, parseCIDR } from '@oarlock/api/net/cidr';
import { familyOf, formatIPNumber, parseIPNumber } from '@oarlock/api/net/ip-number';
import { NetworkError } from '@oarlock/spi/network';

/** An IPv4 range as numbers. Both ends are included. */
export interface AddressRange {
  readonly cidr: string;
  readonly first: number;
  readonly last: number;
}

export const formatAddress = (value: number): string => formatIPNumber(BigInt(value), 'IPv4');

/** Parses an IPv4 address. Returns undefined if the text is not an IPv4 address. */
export function parseAddress(text: string): number | undefined {
  return familyOf(text) === 'IPv4' ? Number(parseIPNumber(text)) : undefined;
}

const loopback = 127;
/** The last address of 127.0.0.0/16, where services of the host listen. */
const reservedEnd = 0x7f00ffff;

/** Returns true if a range is in 127.0.0.0/8. */
export function isLoopbackRange(cidr: string): boolean {
  const range = parseCIDR(cidr);
  return range?.family === 'IPv4' && Number(range.address >> 24n) === loopback && range.prefixLength >= 8;
}

/**
 * Returns the addresses of a range in 127.0.0.0/8, without the first and last address if the range has more than two.
 * @throws NetworkError `InvalidConfig` if the range is outside 127.0.0.0/8 or overlaps 127.0.0.0/16
 */
export function loopbackRange(cidr: string): AddressRange {
  const range = parseCIDR(cidr);
  if (range === undefined || !isLoopbackRange(cidr)) throw new NetworkError('InvalidConfig', `${cidr} is not an IPv4 range in 127.0.0.0/8`);
  const [first, last] = [Number(range.first), Number(range.last)];
  if (first <= reservedEnd) throw new NetworkError('InvalidConfig', `${cidr} overlaps 127.0.0.0/16, which belongs to the host`);
  return cidrSize(range) > 2n ? { cidr, first: first + 1, last: last - 1 } : { cidr, first, last };
}
