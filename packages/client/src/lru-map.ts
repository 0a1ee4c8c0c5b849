/** A map that forgets what has not been asked for longest, a sixteenth at a time, when it would grow beyond its size. */
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

  /** Those that were not asked for longest first. */
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
    // some at once: to find the first of a Map from which much was deleted means to go over all that was
    let excess = Math.max(1, this.#max >> 4);
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      excess -= 1;
      if (excess === 0) break;
    }
  }
}
