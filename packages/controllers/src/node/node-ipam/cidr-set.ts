import { parseCIDR, parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';

/** Maximum number of bits of the index of a part: a range has at most 65,536 parts, as upstream. */
const maxPartBits = 16;

/** Splits a CIDR into parts of equal size, and allocates each part to at most one node at a time. */
export class CidrSet {
  readonly family: IPFamily;
  readonly #base: bigint;
  readonly #partBits: number;
  readonly #partSize: bigint;
  readonly #partCount: number;
  readonly #used = new Set<number>();
  #next = 0;

  /** @throws RangeError if the range is invalid, smaller than one part, or has more than 65,536 parts */
  constructor(cidr: string, partBits: number) {
    const range = parseCIDR(cidr);
    const width = range?.family === 'IPv6' ? 128 : 32;
    if (range === undefined || range.prefixLength > partBits || partBits > width)
      throw new RangeError(`${cidr} cannot be cut into ranges of /${partBits}`);
    if (partBits - range.prefixLength > maxPartBits)
      throw new RangeError(`${cidr} cannot be cut into as many ranges as /${partBits} makes: at most 65,536`);
    this.family = range.family;
    this.#partBits = partBits;
    this.#partSize = 1n << BigInt(width - partBits);
    this.#partCount = 2 ** (partBits - range.prefixLength);
    this.#base = range.first;
  }

  /** Marks a part as in use. Returns false if it is not a part of this range. */
  occupy(cidr: string): boolean {
    const index = this.#indexOf(cidr);
    if (index === undefined) return false;
    this.#used.add(index);
    return true;
  }

  release(cidr: string): void {
    const index = this.#indexOf(cidr);
    if (index !== undefined) this.#used.delete(index);
  }

  /** Returns the next free part, or undefined if all parts are in use. Released parts are reused last. */
  allocateNext(): string | undefined {
    if (this.#used.size >= this.#partCount) return undefined;
    while (this.#used.has(this.#next)) this.#next = (this.#next + 1) % this.#partCount;
    const index = this.#next;
    this.#used.add(index);
    this.#next = (index + 1) % this.#partCount;
    return `${formatIPNumber(this.#base + BigInt(index) * this.#partSize, this.family)}/${this.#partBits}`;
  }

  #indexOf(cidr: string): number | undefined {
    const part = parseCIDRSloppy(cidr);
    const value = part?.family === this.family ? part.address : undefined;
    if (value === undefined || value < this.#base || (value - this.#base) % this.#partSize !== 0n) return undefined;
    const index = (value - this.#base) / this.#partSize;
    return index < BigInt(this.#partCount) ? Number(index) : undefined;
  }
}
