import type { NodeInfo, Snapshot } from '@oarlock/spi/scheduling';
import { hasAllTopologyKeys, type SpreadConstraint } from './spread-constraint.ts';

export const hostnameKey = 'kubernetes.io/hostname';

interface ScoredConstraint {
  readonly constraint: SpreadConstraint;
  /** Weight of the constraint. It grows with the number of domains, so that constraints over many domains are not outweighed. */
  readonly weight: number;
  /** Returns the number of matching pods in the domain of a node. */
  readonly count: (node: NodeInfo, domain: string) => number;
}

export interface PreScoreState {
  readonly scored: readonly ScoredConstraint[];
  /** Returns true for nodes that get no score. undefined: all nodes are scored. */
  readonly isIgnored: ((node: NodeInfo) => boolean) | undefined;
}

/** Returns the constraints to score by. With `requireAllTopologyKeys`, nodes that lack the topology key of a constraint are ignored. */
export function preScoreConstraints(
  snapshot: Snapshot,
  constraints: readonly SpreadConstraint[],
  nodes: readonly NodeInfo[],
  requireAllTopologyKeys: boolean,
): PreScoreState {
  const isIgnored = requireAllTopologyKeys ? (node: NodeInfo) => !hasAllTopologyKeys(node, constraints) : undefined;
  const candidates = isIgnored === undefined ? nodes : nodes.filter((node) => !isIgnored(node));
  const scored = constraints.map((constraint): ScoredConstraint => {
    const { key, selector, countsNode } = constraint;
    if (key === hostnameKey) {
      const byNode = snapshot.podCountByNode(selector);
      return { constraint, weight: Math.log(candidates.length + 2), count: ({ name }) => byNode.get(name) ?? 0 };
    }
    const byDomain = new Map<string, number>();
    // as upstream, nodes without the label form one domain, which counts for the weight
    for (const node of candidates) byDomain.set(node.label(key) ?? '', 0);
    const weight = Math.log(byDomain.size + 2);
    if (countsNode === undefined && (isIgnored === undefined || constraints.length === 1)) {
      const byLabel = snapshot.podCountByLabel(selector, key);
      return { constraint, weight, count: (_node, domain) => byLabel.get(domain) ?? 0 };
    }
    for (const [name, count] of snapshot.podCountByNode(selector)) {
      const node = snapshot.get(name);
      if (node === undefined || isIgnored?.(node) || countsNode?.(node.node) === false) continue;
      const domain = node.label(key) ?? '';
      const before = byDomain.get(domain);
      if (before !== undefined) byDomain.set(domain, before + count);
    }
    return { constraint, weight, count: (_node, domain) => byDomain.get(domain) ?? 0 };
  });
  return { scored, isIgnored };
}

/** Returns the weighted number of matching pods in the domains of the node. A higher number is worse. */
export function scoreNode(state: PreScoreState | undefined, node: NodeInfo): number {
  if (state === undefined || state.isIgnored?.(node)) return 0;
  let sum = 0;
  for (const { constraint, weight, count } of state.scored) {
    const domain = node.label(constraint.key);
    if (domain !== undefined) sum += count(node, domain) * weight + (constraint.maxSkew - 1);
  }
  return Math.round(sum);
}

/** Scales the scores to the range 0 to 100 in place: the node with the fewest matching pods scores 100. Ignored nodes score 0. */
export function normalizeSpreadScores(state: PreScoreState | undefined, nodes: readonly NodeInfo[], scores: Float64Array): void {
  const isIgnored = (index: number) => {
    const node = nodes[index];
    return node !== undefined && state?.isIgnored?.(node) === true;
  };
  let min = Number.POSITIVE_INFINITY;
  let max = 0;
  for (let index = 0; index < scores.length; index++) {
    if (isIgnored(index)) continue;
    min = Math.min(min, scores[index] ?? 0);
    max = Math.max(max, scores[index] ?? 0);
  }
  for (let index = 0; index < scores.length; index++)
    scores[index] = isIgnored(index) ? 0 : max === 0 ? 100 : Math.floor((100 * (max + min - (scores[index] ?? 0))) / max);
}
