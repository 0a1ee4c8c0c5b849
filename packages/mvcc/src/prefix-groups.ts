/** One prefix that somebody watches, and the longest other one that it starts with. */
export interface PrefixGroup<T> {
  readonly prefix: string;
  readonly value: T;
  parent: PrefixGroup<T> | undefined;
}

/** Finds the prefixes that a key starts with, without trying them all. */
export class PrefixGroups<T> {
  readonly #groups = new Map<string, PrefixGroup<T>>();
  #sorted: PrefixGroup<T>[] | undefined;
  /** Prefixes that were looked at so far. */
  steps = 0;

  get size(): number {
    return this.#groups.size;
  }
  values(): Iterable<PrefixGroup<T>> {
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

  /** The longest prefix that `key` starts with; the others are its parents. */
  find(key: string): PrefixGroup<T> | undefined {
    const sorted = this.#sorted ?? this.#sort();
    let low = 0;
    for (let high = sorted.length; low < high; ) {
      const middle = (low + high) >> 1;
      this.steps += 1;
      if ((sorted[middle] as PrefixGroup<T>).prefix <= key) low = middle + 1;
      else high = middle;
    }
    // every prefix of the key is the last one that sorts not behind it, or a prefix of that
    let group = sorted[low - 1];
    while (group && !key.startsWith(group.prefix)) {
      group = group.parent;
      this.steps += 1;
    }
    return group;
  }

  #sort(): PrefixGroup<T>[] {
    const sorted = [...this.#groups.values()].sort((a, b) => (a.prefix < b.prefix ? -1 : 1));
    const outer: PrefixGroup<T>[] = [];
    for (const group of sorted) {
      this.steps += 1;
      while (outer.length > 0 && !group.prefix.startsWith((outer.at(-1) as PrefixGroup<T>).prefix)) outer.pop();
      group.parent = outer.at(-1);
      outer.push(group);
    }
    this.#sorted = sorted;
    return sorted;
  }
}
