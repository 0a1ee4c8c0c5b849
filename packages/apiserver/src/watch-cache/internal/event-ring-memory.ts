/** The methods and properties of an event ring that the memory limit needs. */
export interface AccountedRing {
  readonly bytes: number;
  dropOldest(): void;
}

/** Limits the bytes of all event rings together. Beyond `maxBytes`, the largest ring drops its oldest events. */
export class EventRingMemory {
  readonly maxBytes: number;
  readonly #rings = new Set<AccountedRing>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(ring: AccountedRing): void {
    this.#rings.add(ring);
    this.#bytes += ring.bytes;
  }

  remove(ring: AccountedRing): void {
    if (this.#rings.delete(ring)) this.#bytes -= ring.bytes;
  }

  /** Records that the size of a ring has changed by `bytes`. */
  resize(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Drops events until all rings together are within the limit. */
  enforce(): void {
    while (this.#bytes > this.maxBytes) {
      let largest: AccountedRing | undefined;
      for (const ring of this.#rings) if (largest === undefined || ring.bytes > largest.bytes) largest = ring;
      if (largest === undefined || largest.bytes === 0) return;
      largest.dropOldest();
    }
  }
}
