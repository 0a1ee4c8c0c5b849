import { cidrSize, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { parseIPNumber, familyOf, formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';

/** The addresses of a service CIDR that can be allocated: without the network address and, for IPv4, the broadcast address. */
export class IPRange {
  readonly cidr: string;
  readonly family: IPFamily;
  readonly #first: bigint;
  /** The number of addresses that can be allocated. */
  readonly size: number;

  /** Parses a CIDR. @throws RangeError if the text is not a CIDR */
  constructor(cidr: string) {
    const range = parseCIDRSloppy(cidr);
    if (range === undefined) throw new RangeError(`not a CIDR: ${cidr}`);
    const { family, first } = range;
    this.cidr = cidr;
    this.family = family;
    this.#first = first + 1n;
    const count = cidrSize(range) - (family === 'IPv4' ? 2n : 1n);
    // upstream limits IPv6 ranges to the same size
    this.size = Number(count > 65_536n && family === 'IPv6' ? 65_536n : count < 0n ? 0n : count);
  }

  at(index: number): string {
    return formatIPNumber(this.#first + BigInt(index), this.family);
  }

  contains(address: string): boolean {
    if (familyOf(address) !== this.family) return false;
    const index = (parseIPNumber(address) ?? 0n) - this.#first;
    return index >= 0n && index < BigInt(this.size);
  }
}
