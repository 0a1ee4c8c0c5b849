import { CelError } from '../../values/cel-error.ts';
import { formatAddress, masked, parseAddress, within, type Address } from '../../values/ip-address.ts';
import { fn, traversal, type Library } from '../library.ts';
import { Opaque } from '../../values/value.ts';

const ipType = 'net.IP';
const cidrType = 'net.CIDR';

export class IpValue extends Opaque {
  readonly typeName = ipType;
  readonly address: Address;
  constructor(address: Address) {
    super();
    this.address = address;
  }
  override equals(other: Opaque): boolean {
    return other instanceof IpValue && other.address.bits === this.address.bits && other.address.value === this.address.value;
  }
}
export class CidrValue extends Opaque {
  readonly typeName = cidrType;
  readonly address: Address;
  readonly prefix: number;
  constructor(address: Address, prefix: number) {
    super();
    this.address = address;
    this.prefix = prefix;
  }
  override equals(other: Opaque): boolean {
    return (
      other instanceof CidrValue &&
      other.prefix === this.prefix &&
      other.address.bits === this.address.bits &&
      other.address.value === this.address.value
    );
  }
}

const fault = (message: string) => new CelError('invalid-argument', message);

/**
 * Parses an IP address for the CEL function `ip`.
 * @throws CelError with code `invalid-argument` if the text is not an IP address, has a zone, or is an IPv4-mapped IPv6 address
 */
function ip(text: string): IpValue {
  const address = parseAddress(text);
  if (address === undefined)
    throw fault(`IP Address ${JSON.stringify(text)} parse error during conversion from string: unable to parse IP`);
  if (address.zoned) throw fault(`IP address ${JSON.stringify(text)} with zone value is not allowed`);
  if (address.mapped) throw fault(`IPv4-mapped IPv6 address ${JSON.stringify(text)} is not allowed`);
  return new IpValue(address);
}
function cidr(text: string): CidrValue {
  const slash = text.lastIndexOf('/');
  const address = slash < 0 ? undefined : parseAddress(text.slice(0, slash));
  const digits = text.slice(slash + 1);
  if (address === undefined || address.zoned || address.mapped || !/^(0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > address.bits)
    throw fault(`network address parse error during conversion from string: netip.ParsePrefix(${JSON.stringify(text)})`);
  return new CidrValue(address, Number(digits));
}
const holds = (parse: (text: string) => unknown) => (text: string) => {
  try {
    parse(text);
    return true;
  } catch (error) {
    if (error instanceof CelError) return false;
    throw error;
  }
};
const ipText = ({ address }: IpValue) => formatAddress(address);
const cidrText = ({ address, prefix }: CidrValue) => `${formatAddress(address)}/${prefix}`;

const v4 = (text: string) => parseAddress(text) as Address;
const inAny =
  (...ranges: readonly (readonly [string, number])[]) =>
  ({ address }: IpValue) =>
    ranges.some(([base, prefix]) => within(v4(base), prefix, address));
const isUnspecified = inAny(['0.0.0.0', 32], ['::', 128]);
const isLoopback = inAny(['127.0.0.0', 8], ['::1', 128]);
const isLinkLocalMulticast = inAny(['224.0.0.0', 24], ['ff02::', 16]);
const isLinkLocalUnicast = inAny(['169.254.0.0', 16], ['fe80::', 10]);
const isMulticast = inAny(['224.0.0.0', 4], ['ff00::', 8]);
const isBroadcast = inAny(['255.255.255.255', 32]);
const isGlobalUnicast = (value: IpValue) =>
  !isUnspecified(value) && !isLoopback(value) && !isMulticast(value) && !isLinkLocalUnicast(value) && !isBroadcast(value);

const parsing = { cost: (size: number) => Math.max(1, traversal(size)) };
const twiceCost = { cost: (size: number) => 2 * Math.max(1, traversal(size)) };

export const addresses: Library = {
  name: 'ip',
  functions: [
    fn(`ip(string): ${ipType}`, ip, parsing),
    fn('isIP(string): bool', holds(ip), parsing),
    fn('ip.isCanonical(string): bool', (text: string) => ipText(ip(text)) === text, twiceCost),
    fn(`string(${ipType}): string`, ipText),
    fn(`(${ipType}).family(): int`, ({ address }: IpValue) => (address.bits === 32 ? 4 : 6)),
    fn(`(${ipType}).isUnspecified(): bool`, isUnspecified),
    fn(`(${ipType}).isLoopback(): bool`, isLoopback),
    fn(`(${ipType}).isLinkLocalMulticast(): bool`, isLinkLocalMulticast),
    fn(`(${ipType}).isLinkLocalUnicast(): bool`, isLinkLocalUnicast),
    fn(`(${ipType}).isGlobalUnicast(): bool`, isGlobalUnicast),
    fn(`cidr(string): ${cidrType}`, cidr, parsing),
    fn('isCIDR(string): bool', holds(cidr), parsing),
    fn(`string(${cidrType}): string`, cidrText),
    fn(
      [`(${cidrType}).containsIP(string): bool`, `(${cidrType}).containsIP(${ipType}): bool`],
      ({ address, prefix }: CidrValue, other: IpValue | string) =>
        within(address, prefix, (typeof other === 'string' ? ip(other) : other).address),
      { cost: (_, size) => 1 + traversal(size) },
    ),
    fn(
      [`(${cidrType}).containsCIDR(string): bool`, `(${cidrType}).containsCIDR(${cidrType}): bool`],
      ({ address, prefix }: CidrValue, other: CidrValue | string) => {
        const inner = typeof other === 'string' ? cidr(other) : other;
        return inner.prefix >= prefix && within(address, prefix, inner.address);
      },
      { cost: (_, size) => 1 + traversal(size) },
    ),
    fn(`(${cidrType}).ip(): ${ipType}`, ({ address }: CidrValue) => new IpValue(address)),
    fn(`(${cidrType}).masked(): ${cidrType}`, ({ address, prefix }: CidrValue) => new CidrValue(masked(address, prefix), prefix)),
    fn(`(${cidrType}).prefixLength(): int`, ({ prefix }: CidrValue) => prefix),
  ],
};
