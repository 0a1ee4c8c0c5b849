/** The number of keys in a chunk after a split. A chunk is split when it has twice as many. */
const chunkSize = 256;

/**
 * A map with ordered keys that iterates from any key and counts ranges without iteration. Insertion, deletion and search take logarithmic time and a
 * move within one chunk. Keys are ordered by UTF-16 code units, which equals the order of storage for names that Kubernetes allows.
 */
export class OrderedMap<V> {
  readonly #values = new Map<string, V>();
  /** The chunks of sorted keys, in order. No chunk is empty. */
  readonly #chunks: string[][] = [];

  get size(): number {
    return this.#values.size;
  }
  get(key: string): V | undefined {
    return this.#values.get(key);
  }
  has(key: string): boolean {
    return this.#values.has(key);
  }

  set(key: string, value: V): void {
    if (!this.#values.has(key)) this.#insert(key);
    this.#values.set(key, value);
  }

  delete(key: string): boolean {
    if (!this.#values.delete(key)) return false;
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return true;
    chunk.splice(lowerBound(chunk, key), 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
    return true;
  }

  clear(): void {
    this.#values.clear();
    this.#chunks.length = 0;
  }

  /**
   * Calls `visit` for the keys with the prefix that follow `after`, in order, until `visit` returns false. The map must not change during the call.
   */
  scan(prefix: string, after: string, visit: (key: string, value: V) => boolean): void {
    const from = after >= prefix ? after : prefix;
    for (let c = this.#chunkOf(from); c < this.#chunks.length; c++) {
      const chunk = this.#chunks[c] ?? [];
      for (let i = (chunk[0] ?? '') > from ? 0 : lowerBound(chunk, from); i < chunk.length; i++) {
        const key = chunk[i] ?? '';
        if (!key.startsWith(prefix)) {
          if (key > prefix) return;
          continue;
        }
        if (after !== '' && key <= after) continue;
        if (!visit(key, this.#values.get(key) as V)) return;
      }
    }
  }

  /** Returns the number of keys with the prefix that follow `after`. */
  count(prefix: string, after = ''): number {
    const end = this.#rank(`${prefix}\uffff`, false);
    return Math.max(0, end - (after >= prefix && after !== '' ? this.#rank(after, true) : this.#rank(prefix, false)));
  }

  /** Returns the number of keys before `key`; including `key` itself if `inclusive` is true. */
  #rank(key: string, inclusive: boolean): number {
    const at = this.#chunkOf(key);
    let rank = 0;
    for (let c = 0; c < at; c++) rank += this.#chunks[c]?.length ?? 0;
    const chunk = this.#chunks[at];
    if (chunk === undefined) return rank;
    const index = lowerBound(chunk, key);
    return rank + index + (inclusive && chunk[index] === key ? 1 : 0);
  }

  #insert(key: string): void {
    if (this.#chunks.length === 0) {
      this.#chunks.push([key]);
      return;
    }
    const at = Math.min(this.#chunkOf(key), this.#chunks.length - 1);
    const chunk = this.#chunks[at] ?? [];
    chunk.splice(lowerBound(chunk, key), 0, key);
    if (chunk.length >= 2 * chunkSize) this.#chunks.splice(at + 1, 0, chunk.splice(chunkSize));
  }

  /**
   * Returns the index of the chunk in which `key` belongs: the first chunk whose last key is not before `key`; the number of chunks if there is
   * none.
   */
  #chunkOf(key: string): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#chunks[middle]?.at(-1) ?? '') < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
