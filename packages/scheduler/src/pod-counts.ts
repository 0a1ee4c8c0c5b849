import type { NodeInfo, PodInfo, PodSelection } from '@oarlock/spi/scheduling';

const mostKept = 128;

interface Kept {
  readonly selection: PodSelection;
  readonly byNode: Map<string, number>;
  /** By label of the nodes and its value, for the labels that were asked for. */
  readonly byLabel: Map<string, Map<string, number>>;
}

/** The value of a label of a node; undefined also when there is no such node. */
type LabelOf = (node: string, label: string) => string | undefined;

/**
 * Pods by node for choices that were asked for lately, at most 128. The first question looks at all pods; after that a choice
 * is kept up to date as pods come and go. Costs nothing while nobody asks.
 */
export class PodCounts {
  /** The least lately asked for comes first. */
  readonly #kept = new Map<string, Kept>();
  readonly #labelOf: LabelOf;

  constructor(labelOf: LabelOf) {
    this.#labelOf = labelOf;
  }

  of(selection: PodSelection, nodes: Iterable<NodeInfo>): ReadonlyMap<string, number> {
    return this.#keep(selection, nodes).byNode;
  }

  by(label: string, selection: PodSelection, nodes: Iterable<NodeInfo>): ReadonlyMap<string, number> {
    const { byNode, byLabel } = this.#keep(selection, nodes);
    let sums = byLabel.get(label);
    if (sums === undefined) {
      byLabel.set(label, (sums = new Map()));
      for (const [node, count] of byNode) add(sums, this.#labelOf(node, label), count);
    }
    return sums;
  }

  placed(pod: PodInfo, node: string, by: 1 | -1): void {
    for (const kept of this.#kept.values()) this.#count(kept, pod, node, by);
  }

  /** A node came, went or has other labels. */
  relabelled(): void {
    for (const { byLabel } of this.#kept.values()) byLabel.clear();
  }

  #keep(selection: PodSelection, nodes: Iterable<NodeInfo>): Kept {
    let kept = this.#kept.get(selection.key);
    if (kept === undefined) {
      kept = { selection, byNode: new Map(), byLabel: new Map() };
      for (const { name, pods } of nodes) for (const pod of pods) this.#count(kept, pod, name, 1);
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= mostKept && oldest !== undefined) this.#kept.delete(oldest);
    } else this.#kept.delete(selection.key);
    this.#kept.set(selection.key, kept);
    return kept;
  }

  #count({ selection, byNode, byLabel }: Kept, { pod }: PodInfo, node: string, by: 1 | -1): void {
    if (selection.namespaces?.has(pod.metadata?.namespace ?? '') === false || !selection.selects(pod)) return;
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
