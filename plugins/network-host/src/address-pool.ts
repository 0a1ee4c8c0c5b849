import type { AddressRange } from './loopback-range.ts';

/**
 * Which addresses of some ranges are taken. Constant time per call over the life of a range: fresh addresses come first, in
 * order; those given back follow, the one that was free longest first, so that an address is not reused while others still
 * talk to its last holder.
 */
export class AddressPool {
  readonly #taken = new Set<number>();
  #ranges: readonly AddressRange[] = [];
  #range = 0;
  #next = 0;
  #returned = new Set<number>();

  /** Replaces the ranges. What is taken stays taken, in the ranges or not. */
  use(ranges: readonly AddressRange[]): void {
    if (ranges.map(({ cidr }) => cidr).join() === this.#ranges.map(({ cidr }) => cidr).join()) return;
    this.#ranges = ranges;
    this.#range = 0;
    this.#next = ranges[0]?.first ?? 0;
    this.#returned = new Set();
  }

  /** Undefined when all are taken. */
  take(): number | undefined {
    for (let range = this.#ranges[this.#range]; range; range = this.#ranges[++this.#range], this.#next = range?.first ?? 0) {
      while (this.#next <= range.last) {
        const address = this.#next++;
        if (!this.#taken.has(address)) return this.#take(address);
      }
    }
    for (const address of this.#returned) {
      this.#returned.delete(address);
      if (!this.#taken.has(address)) return this.#take(address);
    }
    return undefined;
  }

  /** Marks an address that is known to be held. */
  hold(address: number): void {
    this.#taken.add(address);
  }

  free(address: number): void {
    if (!this.#taken.delete(address)) return;
    const index = this.#ranges.findIndex(({ first, last }) => address >= first && address <= last);
    const passed = index >= 0 && (index < this.#range || (index === this.#range && address < this.#next));
    if (passed) this.#returned.add(address);
  }

  get size(): number {
    return this.#ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }
  get taken(): number {
    return this.#taken.size;
  }

  #take(address: number): number {
    this.#taken.add(address);
    return address;
  }
}
