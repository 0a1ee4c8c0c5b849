/** An entry of a heap. The entry stores its index in the heap (-1: in no heap), so that it can be removed from the middle. */
export interface HeapEntry {
  heapIndex: number;
}

/** A binary heap whose first entry by `before` is on top. Equal entries come out in no particular order. */
export class Heap<T extends HeapEntry> {
  readonly #items: T[] = [];
  readonly #before: (a: T, b: T) => boolean;

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }
  peek(): T | undefined {
    return this.#items[0];
  }

  push(entry: T): void {
    entry.heapIndex = this.#items.length;
    this.#items.push(entry);
    this.#up(entry.heapIndex);
  }

  pop(): T | undefined {
    const top = this.#items[0];
    if (top !== undefined) this.remove(top);
    return top;
  }

  /** Removes the entry. Does nothing if it is not in this heap. */
  remove(entry: T): void {
    const at = entry.heapIndex;
    if (this.#items[at] !== entry) return;
    const last = this.#items.pop() as T;
    entry.heapIndex = -1;
    if (last === entry) return;
    this.#items[at] = last;
    last.heapIndex = at;
    this.fix(last);
  }

  /** Restores the heap order after the sort key of an entry changed. */
  fix(entry: T): void {
    this.#up(entry.heapIndex);
    this.#down(entry.heapIndex);
  }

  #up(from: number): void {
    const items = this.#items;
    const entry = items[from] as T;
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent] as T;
      if (!this.#before(entry, above)) break;
      items[at] = above;
      above.heapIndex = at;
      at = parent;
    }
    items[at] = entry;
    entry.heapIndex = at;
  }

  #down(from: number): void {
    const items = this.#items;
    const entry = items[from] as T;
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && this.#before(items[child + 1] as T, items[child] as T)) child += 1;
      const below = items[child] as T;
      if (!this.#before(below, entry)) break;
      items[at] = below;
      below.heapIndex = at;
      at = child;
    }
    items[at] = entry;
    entry.heapIndex = at;
  }
}
