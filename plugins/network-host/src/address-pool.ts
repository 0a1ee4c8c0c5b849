import type { AddressRange } from './loopback-range.ts';

/**
 * A pool of IPv4 addresses with constant time per call. Assigns never used addresses first, in order, and released addresses afterwards, the longest
 * released first, so that an address is not reused while clients still talk to its previous pod.
 */
export class AddressPool {
  readonly #allocated = new Set<number>();
  #ranges: readonly AddressRange[] = [];
  #range = 0;
  #next = 0;
  #returned = new Set<number>();

  /** Replaces the ranges. Allocated addresses stay allocated, even outside the new ranges. */
  use(ranges: readonly AddressRange[]): void {
    if (ranges.map(({ cidr }) => cidr).join() === this.#ranges.map(({ cidr }) => cidr).join()) return;
    this.#ranges = ranges;
    this.#range = 0;
    this.#next = ranges[0]?.first ?? 0;
    this.#returned = new Set();
  }

  /** Allocates an address. Returns undefined if all addresses are in use. */
  take(): number | undefined {
    for (let range = this.#ranges[this.#range]; range; range = this.#ranges[++this.#range], this.#next = range?.first ?? 0) {
      while (this.#next <= range.last) {
        const address = this.#next++;
        if (!this.#allocated.has(address)) return this.#take(address);
      }
    }
    for (const address of this.#returned) {
      this.#returned.delete(address);
      if (!this.#allocated.has(address)) return this.#take(address);
    }
    return undefined;
  }

  /** Marks an address as allocated. */
  hold(address: number): void {
    this.#allocated.add(address);
  }

  free(address: number): void {
    if (!this.#allocated.delete(address)) return;
    const index = this.#ranges.findIndex(({ first, last }) => address >= first && address <= last);
    const passed = index >= 0 && (index < this.#range || (index === this.#range && address < this.#next));
    if (passed) this.#returned.add(address);
  }

  get size(): number {
    return this.#ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }
  get allocated(): number {
    return this.#allocated.size;
  }

  #take(address: number): number {
    this.#allocated.add(address);
    return address;
  }
}
