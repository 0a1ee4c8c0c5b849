/** How values are spread over buckets: a histogram that is kept where what it measures is, and goes with it. */
export class Distribution {
  /** Upper bounds, the smallest first; what is beyond is in `count` alone. */
  readonly bounds: readonly number[];
  /** How many are in each bucket, those of smaller ones not among them. */
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

  /** Bounds with how many values are at most so large. */
  *upTo(): Generator<readonly [bound: number, count: number]> {
    let count = 0;
    for (const [index, bound] of this.bounds.entries()) {
      count += this.#in[index] ?? 0;
      yield [bound, count];
    }
  }
}
