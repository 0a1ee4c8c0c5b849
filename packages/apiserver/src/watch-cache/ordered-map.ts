/** The number of keys in a chunk after a split. A chunk is split when it has twice as many. */
const chunkSize = 256;

interface OrderedEntry<V> {
  readonly key: string;
  value: V;
}

/**
 * A map with ordered keys that iterates from any key and counts ranges without iteration. Insertion, deletion and search take logarithmic time and a
 * move within one chunk. Keys are ordered by UTF-16 code units, which equals the order of storage for names that Kubernetes allows.
 */
export class OrderedMap<V> {
  readonly #entries = new Map<string, OrderedEntry<V>>();
  /** The chunks of sorted entries, in order. No chunk is empty. A scan reads them without a lookup for each key. */
  readonly #chunks: OrderedEntry<V>[][] = [];

  get size(): number {
    return this.#entries.size;
  }
  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }
  has(key: string): boolean {
    return this.#entries.has(key);
  }

  set(key: string, value: V): void {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      known.value = value;
      return;
    }
    const entry = { key, value };
    this.#entries.set(key, entry);
    this.#insert(entry);
  }

  delete(key: string): boolean {
    if (!this.#entries.delete(key)) return false;
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return true;
    chunk.splice(lowerBound(chunk, key), 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
    return true;
  }

  clear(): void {
    this.#entries.clear();
    this.#chunks.length = 0;
  }

  /**
   * Calls `visit` for the keys with the prefix that follow `after`, in order, until `visit` returns false. The map must not change during the call.
   */
  scan(prefix: string, after: string, visit: (key: string, value: V) => boolean): void {
    const from = after >= prefix ? after : prefix;
    for (let c = this.#chunkOf(from); c < this.#chunks.length; c++) {
      const chunk = this.#chunks[c] ?? [];
      // the keys with the prefix follow each other
      const isWhole = chunk.at(-1)?.key.startsWith(prefix) === true;
      const end = isWhole ? chunk.length : lowerBound(chunk, `${prefix}\uffff`);
      for (let i = (chunk[0]?.key ?? '') > from ? 0 : lowerBound(chunk, from); i < end; i++) {
        const { key, value } = chunk[i] as OrderedEntry<V>;
        if (key === after) continue;
        if (!visit(key, value)) return;
      }
      if (!isWhole) return;
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
    return rank + index + (inclusive && chunk[index]?.key === key ? 1 : 0);
  }

  #insert(entry: OrderedEntry<V>): void {
    const { key } = entry;
    if (this.#chunks.length === 0) {
      this.#chunks.push([entry]);
      return;
    }
    const at = Math.min(this.#chunkOf(key), this.#chunks.length - 1);
    const chunk = this.#chunks[at] ?? [];
    chunk.splice(lowerBound(chunk, key), 0, entry);
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
      if ((this.#chunks[middle]?.at(-1)?.key ?? '') < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function lowerBound(entries: readonly OrderedEntry<unknown>[], key: string): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.key ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
