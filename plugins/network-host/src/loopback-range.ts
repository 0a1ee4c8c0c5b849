import { NetworkError } from '@oarlock/spi/network';

/** An IPv4 range as numbers; both ends belong to it and may be given out. */
export interface AddressRange {
  readonly cidr: string;
  readonly first: number;
  readonly last: number;
}

export function formatAddress(value: number): string {
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.');
}

/** Undefined when it is not a dotted quad. */
export function parseAddress(text: string): number | undefined {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)?.slice(1).map(Number);
  if (!parts || parts.some((part) => part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

const loopback = 127;
/** 127.0.0.0/16: where the host's own services listen. */
const reservedEnd = 0x7f00ffff;

/** Whether a range lies in 127.0.0.0/8. */
export function isLoopbackRange(cidr: string): boolean {
  const [base = '', bits = ''] = cidr.split('/');
  const value = parseAddress(base);
  return value !== undefined && value >>> 24 === loopback && Number(bits) >= 8 && Number(bits) <= 32;
}

/**
 * The addresses of a range in 127.0.0.0/8, without its first and last where it has more than two.
 * @throws NetworkError `InvalidConfig` for anything else, and for what reaches into 127.0.0.0/16
 */
export function loopbackRange(cidr: string): AddressRange {
  const [base = '', bits = ''] = cidr.split('/');
  const value = parseAddress(base);
  if (value === undefined || !/^\d+$/.test(bits) || !isLoopbackRange(cidr))
    throw new NetworkError('InvalidConfig', `${cidr} is not an IPv4 range in 127.0.0.0/8`);
  const size = 2 ** (32 - Number(bits));
  const start = value - (value % size);
  if (start <= reservedEnd) throw new NetworkError('InvalidConfig', `${cidr} holds addresses of 127.0.0.0/16, which belong to the host`);
  return size > 2 ? { cidr, first: start + 1, last: start + size - 2 } : { cidr, first: start, last: start + size - 1 };
}
