import { cidrSize, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { parseIPNumber, familyOf, formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';

/** The addresses of a CIDR that can be given to Services: without the network's own and, for IPv4, the broadcast address. */
export class IPRange {
  readonly cidr: string;
  readonly family: IPFamily;
  readonly #first: bigint;
  /** How many addresses there are to give. */
  readonly size: number;

  /** @throws RangeError when the text is no CIDR */
  constructor(cidr: string) {
    const range = parseCIDRSloppy(cidr);
    if (range === undefined) throw new RangeError(`not a CIDR: ${cidr}`);
    const { family, first } = range;
    this.cidr = cidr;
    this.family = family;
    this.#first = first + 1n;
    const count = cidrSize(range) - (family === 'IPv4' ? 2n : 1n);
    // upstream tracks no more of an IPv6 range either
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
