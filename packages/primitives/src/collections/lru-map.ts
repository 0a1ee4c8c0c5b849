/** A map of bounded size. When it would grow beyond `max`, it drops the least recently read sixteenth of its entries. */
export class LruMap<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, value);
    }
    return value;
  }

  /** Returns the entries, least recently read first. */
  entries(): IterableIterator<[K, V]> {
    return this.#entries.entries();
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#max) return;
    // several at once: finding the first entry of a Map walks over all entries that were deleted at its front
    let excess = Math.max(1, this.#max >> 4);
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      excess -= 1;
      if (excess === 0) break;
    }
  }
}
