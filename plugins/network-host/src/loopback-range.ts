import { NetworkError } from '@oarlock/spi/network';

/** An IPv4 range as numbers, both ends included. */
export interface AddressRange {
  readonly cidr: string;
  readonly first: number;
  readonly last: number;
}

export function formatAddress(value: number): string {
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.');
}

/** Parses an IPv4 address. Returns undefined if it is invalid. */
export function parseAddress(text: string): number | undefined {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)?.slice(1).map(Number);
  if (!parts || parts.some((part) => part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

const loopback = 127;
/** 127.0.0.0/16, where services of the host listen. */
const reservedEnd = 0x7f00ffff;

/** Returns true if a range is in 127.0.0.0/8. */
export function isLoopbackRange(cidr: string): boolean {
  const [base = '', bits = ''] = cidr.split('/');
  const value = parseAddress(base);
  return value !== undefined && value >>> 24 === loopback && Number(bits) >= 8 && Number(bits) <= 32;
}

/**
 * Returns the addresses of a range in 127.0.0.0/8, without the first and last if it has more than two.
 * @throws NetworkError `InvalidConfig` for other ranges, and for one that overlaps 127.0.0.0/16
 */
export function loopbackRange(cidr: string): AddressRange {
  const [base = '', bits = ''] = cidr.split('/');
  const value = parseAddress(base);
  if (value === undefined || !/^\d+$/.test(bits) || !isLoopbackRange(cidr))
    throw new NetworkError('InvalidConfig', `${cidr} is not an IPv4 range in 127.0.0.0/8`);
  const size = 2 ** (32 - Number(bits));
  const start = value - (value % size);
  if (start <= reservedEnd) throw new NetworkError('InvalidConfig', `${cidr} overlaps 127.0.0.0/16, which belongs to the host`);
  return size > 2 ? { cidr, first: start + 1, last: start + size - 2 } : { cidr, first: start, last: start + size - 1 };
}
