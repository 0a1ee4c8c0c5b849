type Interval = readonly [from: number, to: number];

/**
 * A set of completion indexes in the notation of the Job status, for example `1,3-5,7`. Stores intervals, because a Job may have 100,000
 * indexes.
 */
export class IndexSet {
  readonly #intervals: readonly Interval[];
  readonly size: number;

  private constructor(intervals: readonly Interval[]) {
    this.#intervals = intervals;
    this.size = intervals.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  }

  static readonly empty = new IndexSet([]);

  static of(indexes: Iterable<number>): IndexSet {
    const sorted = [...new Set(indexes)].sort((a, b) => a - b);
    const intervals: [number, number][] = [];
    for (const index of sorted) {
      const last = intervals.at(-1);
      if (last !== undefined && last[1] + 1 === index) last[1] = index;
      else intervals.push([index, index]);
    }
    return new IndexSet(intervals);
  }

  /** Parses the notation of the Job status. Drops indexes that are not below `completions`, because `completions` may have been lowered. */
  static parse(text: string | undefined, completions: number): IndexSet {
    const intervals: Interval[] = [];
    for (const part of (text ?? '').split(',')) {
      const match = /^([0-9]+)(?:-([0-9]+))?$/.exec(part);
      if (match === null) continue;
      const from = Number(match[1]);
      const to = Math.min(Number(match[2] ?? match[1]), completions - 1);
      if (from <= to) intervals.push([from, to]);
    }
    return new IndexSet(intervals);
  }

  has(index: number): boolean {
    let low = 0;
    let high = this.#intervals.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const [from, to] = this.#intervals[middle] ?? [0, -1];
      if (index < from) high = middle - 1;
      else if (index > to) low = middle + 1;
      else return true;
    }
    return false;
  }

  *[Symbol.iterator](): Iterator<number> {
    for (const [from, to] of this.#intervals) for (let index = from; index <= to; index++) yield index;
  }

  plus(indexes: Iterable<number>): IndexSet {
    const fresh = [...indexes].filter((index) => !this.has(index));
    if (fresh.length === 0) return this;
    const all = [...this.#intervals, ...IndexSet.of(fresh).#intervals].sort(([a], [b]) => a - b);
    const merged: [number, number][] = [];
    for (const [from, to] of all) {
      const last = merged.at(-1);
      if (last !== undefined && last[1] + 1 >= from) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    return new IndexSet(merged);
  }

  /** Returns the number of indexes that are in both sets. */
  common(other: IndexSet): number {
    let count = 0;
    let at = 0;
    for (const [from, to] of this.#intervals) {
      while (at < other.#intervals.length && (other.#intervals[at]?.[1] ?? 0) < from) at += 1;
      for (let next = at; next < other.#intervals.length; next++) {
        const [start, end] = other.#intervals[next] ?? [0, -1];
        if (start > to) break;
        count += Math.min(to, end) - Math.max(from, start) + 1;
      }
    }
    return count;
  }

  /** Formats the set. Two consecutive indexes are formatted as `1,2`, three or more as a range, as upstream does. */
  toString(): string {
    return this.#intervals
      .map(([from, to]) => (from === to ? String(from) : to === from + 1 ? `${from},${to}` : `${from}-${to}`))
      .join(',');
  }
}
