import type { NodeInfo } from '@oarlock/spi/scheduling';

/** Sums by topology key and by the value of this label on nodes, that is, by topology domain. Zero sums are removed. */
export class TopologyCounts {
  readonly #byKey = new Map<string, Map<string, number>>();

  get empty(): boolean {
    return this.#byKey.size === 0;
  }
  /** Adds an amount to the topology domain of a node. Does nothing if the node lacks the label. */
  add(node: NodeInfo, key: string, amount: number): void {
    const value = node.label(key);
    if (value === undefined) return;
    const sums = this.#byKey.get(key) ?? new Map<string, number>();
    const sum = (sums.get(value) ?? 0) + amount;
    if (sum === 0) sums.delete(value);
    else sums.set(value, sum);
    if (sums.size === 0) this.#byKey.delete(key);
    else this.#byKey.set(key, sums);
  }
  at(node: NodeInfo, key: string): number {
    return this.#byKey.get(key)?.get(node.label(key) ?? '') ?? 0;
  }
  /** Returns the sum for the topology domains of a node, over all topology keys. */
  total(node: NodeInfo): number {
    let total = 0;
    for (const key of this.#byKey.keys()) total += this.at(node, key);
    return total;
  }
}
