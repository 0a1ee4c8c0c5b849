import type { NodeInfo, PodInfo, PodSelection } from '@oarlock/spi/scheduling';

const mostKept = 128;

interface Kept {
  readonly selection: PodSelection;
  readonly byNode: Map<string, number>;
}

/**
 * Pods by node for choices that were asked for lately, at most 128. The first question looks at all pods; after that a choice
 * is kept up to date as pods come and go. Costs nothing while nobody asks.
 */
export class PodCounts {
  /** The least lately asked for comes first. */
  readonly #kept = new Map<string, Kept>();

  of(selection: PodSelection, nodes: Iterable<NodeInfo>): ReadonlyMap<string, number> {
    let kept = this.#kept.get(selection.key);
    if (kept === undefined) {
      kept = { selection, byNode: new Map() };
      for (const { name, pods } of nodes) for (const pod of pods) count(kept, pod, name, 1);
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= mostKept && oldest !== undefined) this.#kept.delete(oldest);
    } else this.#kept.delete(selection.key);
    this.#kept.set(selection.key, kept);
    return kept.byNode;
  }

  placed(pod: PodInfo, node: string, by: 1 | -1): void {
    if (this.#kept.size === 0) return;
    for (const kept of this.#kept.values()) count(kept, pod, node, by);
  }
}

function count({ selection, byNode }: Kept, { pod }: PodInfo, node: string, by: 1 | -1): void {
  if (selection.namespaces?.has(pod.metadata?.namespace ?? '') === false || !selection.selects(pod)) return;
  const left = (byNode.get(node) ?? 0) + by;
  if (left === 0) byNode.delete(node);
  else byNode.set(node, left);
}
