import type { NodeInfo, PodInfo, PodSelector } from '@oarlock/spi/scheduling';

const maxSelectors = 128;

interface SelectorCounts {
  readonly selector: PodSelector;
  readonly byNode: Map<string, number>;
  /** Pod counts by label key, then label value, for the label keys that were requested since the last reset. */
  readonly byLabel: Map<string, Map<string, number>>;
}

/** Returns the value of a node's label; undefined if the node or the label does not exist. */
type LabelOf = (node: string, label: string) => string | undefined;

/**
 * Counts the pods on each node that match a selector, for the `maxSelectors` most recently used selectors. The first request for a selector visits
 * all pods; later changes of pods update the counts.
 */
export class PodCounts {
  /** Counts by selector, with the least recently used selector first. */
  readonly #bySelector = new Map<string, SelectorCounts>();
  readonly #labelOf: LabelOf;

  constructor(labelOf: LabelOf) {
    this.#labelOf = labelOf;
  }

  byNode(selector: PodSelector, nodes: Iterable<NodeInfo>): ReadonlyMap<string, number> {
    return this.#countsFor(selector, nodes).byNode;
  }

  byLabel(label: string, selector: PodSelector, nodes: Iterable<NodeInfo>): ReadonlyMap<string, number> {
    const { byNode, byLabel } = this.#countsFor(selector, nodes);
    let sums = byLabel.get(label);
    if (sums === undefined) {
      byLabel.set(label, (sums = new Map()));
      for (const [node, count] of byNode) add(sums, this.#labelOf(node, label), count);
    }
    return sums;
  }

  adjust(pod: PodInfo, node: string, by: 1 | -1): void {
    for (const counts of this.#bySelector.values()) this.#count(counts, pod, node, by);
  }

  /** Drops the counts by label. Must be called when a node is added or deleted, or when its labels change. */
  resetLabelCounts(): void {
    for (const { byLabel } of this.#bySelector.values()) byLabel.clear();
  }

  #countsFor(selector: PodSelector, nodes: Iterable<NodeInfo>): SelectorCounts {
    let counts = this.#bySelector.get(selector.key);
    if (counts === undefined) {
      counts = { selector, byNode: new Map(), byLabel: new Map() };
      for (const { name, pods } of nodes) for (const pod of pods) this.#count(counts, pod, name, 1);
      const [oldest] = this.#bySelector.keys();
      if (this.#bySelector.size >= maxSelectors && oldest !== undefined) this.#bySelector.delete(oldest);
    } else this.#bySelector.delete(selector.key);
    this.#bySelector.set(selector.key, counts);
    return counts;
  }

  #count({ selector, byNode, byLabel }: SelectorCounts, { pod }: PodInfo, node: string, by: 1 | -1): void {
    if (selector.namespaces?.has(pod.metadata?.namespace ?? '') === false || !selector.matches(pod)) return;
    add(byNode, node, by);
    for (const [label, sums] of byLabel) add(sums, this.#labelOf(node, label), by);
  }
}

function add(sums: Map<string, number>, key: string | undefined, by: number): void {
  if (key === undefined) return;
  const left = (sums.get(key) ?? 0) + by;
  if (left === 0) sums.delete(key);
  else sums.set(key, left);
}
