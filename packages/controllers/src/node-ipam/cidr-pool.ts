import { addressOf, familyOf, formatAddress, type IPFamily } from '@oarlock/api/ip-number';

/** More parts of one range than this are not handed out: 65,536, as upstream has it. */
const maxPartBits = 16;

/** Cuts a range into equal parts and hands each out once. */
export class CidrPool {
  readonly family: IPFamily;
  readonly #base: bigint;
  readonly #bits: number;
  readonly #part: bigint;
  readonly #size: number;
  readonly #used = new Set<number>();
  #next = 0;

  /** @throws RangeError when the range is none, smaller than one part, or is cut into more than 65,536 */
  constructor(cidr: string, partBits: number) {
    const [text = '', bits = ''] = cidr.split('/');
    const [base, family] = [addressOf(text), familyOf(text)];
    const width = family === 'IPv6' ? 128 : 32;
    const rangeBits = Number(bits);
    if (base === undefined || family === undefined || !/^\d+$/.test(bits) || rangeBits > partBits || partBits > width)
      throw new RangeError(`${cidr} cannot be cut into ranges of /${partBits}`);
    if (partBits - rangeBits > maxPartBits)
      throw new RangeError(`${cidr} cannot be cut into as many ranges as /${partBits} makes: at most 65,536`);
    this.family = family;
    this.#bits = partBits;
    this.#part = 1n << BigInt(width - partBits);
    this.#size = 2 ** (partBits - rangeBits);
    const whole = 1n << BigInt(width - rangeBits);
    this.#base = (base / whole) * whole;
  }

  /** Marks a part that is in use already. False when it is not one of ours. */
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

  /** The next free part, or undefined when all are in use. Freed ones come back last. */
  take(): string | undefined {
    if (this.#used.size >= this.#size) return undefined;
    while (this.#used.has(this.#next)) this.#next = (this.#next + 1) % this.#size;
    const index = this.#next;
    this.#used.add(index);
    this.#next = (index + 1) % this.#size;
    return `${formatAddress(this.#base + BigInt(index) * this.#part, this.family)}/${this.#bits}`;
  }

  #indexOf(cidr: string): number | undefined {
    const text = cidr.split('/')[0] ?? '';
    const value = familyOf(text) === this.family ? addressOf(text) : undefined;
    if (value === undefined || value < this.#base || (value - this.#base) % this.#part !== 0n) return undefined;
    const index = (value - this.#base) / this.#part;
    return index < BigInt(this.#size) ? Number(index) : undefined;
  }
}
