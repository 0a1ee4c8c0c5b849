/** A histogram with the lifetime of the object that it measures, unlike the histograms of a metrics registry. */
export class Histogram {
  /** The upper bounds of the buckets in ascending order. Larger values count only in `count`. */
  readonly bounds: readonly number[];
  /** The number of values in each bucket, not cumulative. */
  readonly #in: number[];
  #sum = 0;
  #count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#in = bounds.map(() => 0);
  }

  get sum(): number {
    return this.#sum;
  }
  get count(): number {
    return this.#count;
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count += 1;
    const bucket = this.bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) this.#in[bucket] = (this.#in[bucket] ?? 0) + 1;
  }

  /** Yields each upper bound with the cumulative count of values. */
  *upTo(): Generator<readonly [bound: number, count: number]> {
    let count = 0;
    for (const [index, bound] of this.bounds.entries()) {
      count += this.#in[index] ?? 0;
      yield [bound, count];
    }
  }
}
