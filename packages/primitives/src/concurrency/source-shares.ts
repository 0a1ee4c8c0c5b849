/**
 * Divides places between sources: a source may take one while it has fewer than are free. So one source alone gets half of them, n greedy sources get 1/(n + 1)
 * each, and the same number stays free for others (the dynamic threshold of buffers in switches, Choudhury and Hahne 1998).
 */
export class SourceShares {
  readonly #total: number;
  readonly #counts = new Map<string, number>();
  #used = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** Takes a place. Returns false, and takes none, if the source has its share. */
  take(source: string): boolean {
    const count = this.#counts.get(source) ?? 0;
    if (count >= this.#total - this.#used) return false;
    this.#counts.set(source, count + 1);
    this.#used += 1;
    return true;
  }

  /** Gives back one place that `take` gave to the source. */
  release(source: string): void {
    const count = this.#counts.get(source) ?? 0;
    if (count === 0) return;
    this.#used -= 1;
    if (count === 1) this.#counts.delete(source);
    else this.#counts.set(source, count - 1);
  }
}
