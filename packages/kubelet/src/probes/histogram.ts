/** A histogram that lives as long as the object that it measures, unlike those of a metrics registry. */
export class Histogram {
  /** Upper bounds in ascending order; larger values count only in `count`. */
  readonly bounds: readonly number[];
  /** Values per bucket, not cumulative. */
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

  /** Yields each bound with the cumulative count. */
  *upTo(): Generator<readonly [bound: number, count: number]> {
    let count = 0;
    for (const [index, bound] of this.bounds.entries()) {
      count += this.#in[index] ?? 0;
      yield [bound, count];
    }
  }
}
