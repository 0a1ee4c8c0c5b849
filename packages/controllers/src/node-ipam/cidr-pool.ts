import { isIPv4 } from 'node:net';

const toNumber = (ip: string): number => ip.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
const toText = (value: number): string => [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');

/** Cuts an IPv4 range into equal parts and hands each out once. */
export class CidrPool {
  readonly #base: number;
  readonly #bits: number;
  readonly #size: number;
  readonly #used = new Set<number>();
  #next = 0;

  /** @throws RangeError when the range is not IPv4 or smaller than one part */
  constructor(cidr: string, partBits: number) {
    const [base = '', bits = ''] = cidr.split('/');
    if (!isIPv4(base) || !/^\d+$/.test(bits) || Number(bits) > partBits || partBits > 30)
      throw new RangeError(`${cidr} cannot be cut into ranges of /${partBits}`);
    this.#bits = partBits;
    this.#size = 2 ** (partBits - Number(bits));
    const whole = 2 ** (32 - Number(bits));
    this.#base = Math.floor(toNumber(base) / whole) * whole;
  }

  /** Marks a part that is in use already. False when it is not one of ours. */
  occupy(cidr: string): boolean {
    const index = (toNumber(cidr.split('/')[0] ?? '') - this.#base) / 2 ** (32 - this.#bits);
    if (!Number.isInteger(index) || index < 0 || index >= this.#size) return false;
    this.#used.add(index);
    return true;
  }

  release(cidr: string): void {
    this.#used.delete((toNumber(cidr.split('/')[0] ?? '') - this.#base) / 2 ** (32 - this.#bits));
  }

  /** The next free part, or undefined when all are in use. Freed ones come back last. */
  take(): string | undefined {
    if (this.#used.size >= this.#size) return undefined;
    while (this.#used.has(this.#next)) this.#next = (this.#next + 1) % this.#size;
    const index = this.#next;
    this.#used.add(index);
    this.#next = (index + 1) % this.#size;
    return `${toText(this.#base + index * 2 ** (32 - this.#bits))}/${this.#bits}`;
  }
}
