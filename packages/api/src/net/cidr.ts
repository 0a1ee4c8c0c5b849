import { familyOf, formatIPNumber, parseIPNumber, type IPFamily } from './ip-number.ts';

/** A network in CIDR notation, such as `10.244.0.0/16`. */
export interface CIDR {
  readonly family: IPFamily;
  /** The address before the slash, which may have host bits. */
  readonly address: bigint;
  /** The network address: `address` without host bits. */
  readonly first: bigint;
  readonly last: bigint;
  readonly prefixLength: number;
}

const addressBits = { IPv4: 32, IPv6: 128 } as const;

/**
 * Parses a CIDR as Go's net.ParseCIDR does: host bits, and leading zeros of the prefix length, are allowed; octets with leading zeros and zones
 * are not. A network of IPv4-mapped IPv6 addresses (`::ffff:10.0.0.0/104`) is the IPv4 network, as in net.IPNet. Returns undefined for other text.
 */
export function parseCIDR(text: string): CIDR | undefined {
  const slash = text.indexOf('/');
  if (slash < 0) return undefined;
  const address = parseIPNumber(text.slice(0, slash));
  const family = familyOf(text.slice(0, slash));
  const digits = text.slice(slash + 1);
  if (address === undefined || family === undefined || !/^\d+$/.test(digits) || Number(digits) > addressBits[family]) return undefined;
  const prefixLength = Number(digits);
  const size = 1n << BigInt(addressBits[family] - prefixLength);
  const first = (address / size) * size;
  if (family === 'IPv6' && prefixLength >= 96 && first >> 32n === 0xffffn)
    return {
      family: 'IPv4',
      address: address & 0xffff_ffffn,
      first: first & 0xffff_ffffn,
      last: (first & 0xffff_ffffn) + size - 1n,
      prefixLength: prefixLength - 96,
    };
  return { family, address, first, last: first + size - 1n, prefixLength };
}

/**
 * Parses a CIDR as Kubernetes' netutils.ParseCIDRSloppy does: like `parseCIDR`, but octets and groups may have leading zeros, which are decimal.
 * For fields of API objects, which may have been stored before validation rejected such values. Programs must get `formatCIDR` of the result,
 * because some read such octets as octal numbers.
 */
export const parseCIDRSloppy = (text: string): CIDR | undefined => parseCIDR(text.replace(/(?<=^|[.:])0+(?=[0-9a-f])/gi, ''));

/** Formats the network in canonical form: without host bits, IPv6 by RFC 5952. */
export const formatCIDR = ({ family, first, prefixLength }: CIDR): string => `${formatIPNumber(first, family)}/${prefixLength}`;

/** Returns the number of addresses. */
export const cidrSize = ({ first, last }: CIDR): bigint => last - first + 1n;

/** Returns the address before the slash, or undefined if the text is not a CIDR. */
export function addressOfCIDR(text: string): string | undefined {
  const cidr = parseCIDR(text);
  return cidr && formatIPNumber(cidr.address, cidr.family);
}

/** Returns whether the network contains an address. IPv4-mapped IPv6 addresses are IPv4 addresses. */
export function cidrContains({ family, first, last }: CIDR, address: string): boolean {
  const parsed = parseIPNumber(address);
  if (parsed === undefined) return false;
  const isMapped = familyOf(address) === 'IPv6' && parsed >> 32n === 0xffffn;
  const value = isMapped ? parsed & 0xffff_ffffn : parsed;
  return (isMapped ? 'IPv4' : familyOf(address)) === family && value >= first && value <= last;
}
