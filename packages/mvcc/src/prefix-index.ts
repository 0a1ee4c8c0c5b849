/** A watched prefix, and as `parent` the longest other watched prefix that it starts with. */
export interface PrefixEntry<T> {
  readonly prefix: string;
  readonly value: T;
  parent: PrefixEntry<T> | undefined;
}

/** An index that finds the watched prefixes of a key without comparing the key with every prefix. */
export class PrefixIndex<T> {
  readonly #groups = new Map<string, PrefixEntry<T>>();
  #sorted: PrefixEntry<T>[] | undefined;
  /** Number of prefixes compared since creation. */
  steps = 0;

  get size(): number {
    return this.#groups.size;
  }
  values(): Iterable<PrefixEntry<T>> {
    return this.#groups.values();
  }

  get(prefix: string): T | undefined {
    return this.#groups.get(prefix)?.value;
  }

  add(prefix: string, value: T): void {
    this.#groups.set(prefix, { prefix, value, parent: undefined });
    this.#sorted = undefined;
  }

  delete(prefix: string): void {
    if (this.#groups.delete(prefix)) this.#sorted = undefined;
  }

  /** Returns the longest watched prefix of `key`, or undefined. The shorter watched prefixes of `key` are the chain of `parent`. */
  find(key: string): PrefixEntry<T> | undefined {
    const sorted = this.#sorted ?? this.#sort();
    let low = 0;
    for (let high = sorted.length; low < high; ) {
      const middle = (low + high) >> 1;
      this.steps += 1;
      if ((sorted[middle] as PrefixEntry<T>).prefix <= key) low = middle + 1;
      else high = middle;
    }
    // each prefix of the key is the last entry that does not sort after the key, or a prefix of that entry
    let group = sorted[low - 1];
    while (group && !key.startsWith(group.prefix)) {
      group = group.parent;
      this.steps += 1;
    }
    return group;
  }

  #sort(): PrefixEntry<T>[] {
    const sorted = [...this.#groups.values()].sort((a, b) => (a.prefix < b.prefix ? -1 : 1));
    const outer: PrefixEntry<T>[] = [];
    for (const group of sorted) {
      this.steps += 1;
      while (outer.length > 0 && !group.prefix.startsWith((outer.at(-1) as PrefixEntry<T>).prefix)) outer.pop();
      group.parent = outer.at(-1);
      outer.push(group);
    }
    this.#sorted = sorted;
    return sorted;
  }
}
