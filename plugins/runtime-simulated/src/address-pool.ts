import { RuntimeError } from '@oarlock/spi/runtime';

/** Allocates addresses of one IPv4 range. Released addresses are reused last. */
export class AddressPool {
  readonly #first: number;
  readonly #size: number;
  readonly #allocated = new Set<number>();
  #next = 0;

  /** @param range for example `10.128.0.0/9`; the first and last address are not allocated. @throws RuntimeError `InvalidArgument` if it is invalid */
  constructor(range: string) {
    const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(range);
    const parts = match?.slice(1).map(Number) ?? [];
    const [a = 256, b = 256, c = 256, d = 256, bits = 33] = parts;
    if (Math.max(a, b, c, d) > 255 || bits > 30)
      throw new RuntimeError('InvalidArgument', `not an IPv4 range of at least four addresses: ${range}`);
    this.#size = 2 ** (32 - bits) - 2;
    const base = a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
    this.#first = base - (base % 2 ** (32 - bits)) + 1;
  }

  /** Allocates an address. @throws RuntimeError `Unavailable` if all addresses are allocated */
  take(): string {
    if (this.#allocated.size >= this.#size) throw new RuntimeError('Unavailable', 'no simulated address is left');
    while (this.#allocated.has(this.#next)) this.#next = (this.#next + 1) % this.#size;
    const offset = this.#next;
    this.#allocated.add(offset);
    this.#next = (offset + 1) % this.#size;
    const address = this.#first + offset;
    return `${Math.floor(address / 2 ** 24)}.${Math.floor(address / 2 ** 16) % 256}.${Math.floor(address / 2 ** 8) % 256}.${address % 256}`;
  }

  release(address: string): void {
    const number = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
    this.#allocated.delete(number - this.#first);
  }
}
