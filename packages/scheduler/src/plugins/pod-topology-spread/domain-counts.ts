import type { Pod } from '@oarlock/api/types/core-v1';
import type { NodeInfo, Snapshot } from '@oarlock/spi/scheduling';
import { hasAllTopologyKeys, type SpreadConstraint } from './spread-constraint.ts';

interface TopologyDomains {
  readonly names: ReadonlySet<string>;
  /** True if every node has the topology label. */
  readonly coversAllNodes: boolean;
}

const domainsByNodeList = new WeakMap<readonly NodeInfo[], Map<string, TopologyDomains>>();

/**
 * Returns the topology domains of a node label: the distinct values of the label `key` on the nodes. Cached for each node list; the scheduler
 * cache creates a new list when labels change.
 */
function domainsOf(nodes: readonly NodeInfo[], key: string): TopologyDomains {
  const byKey = domainsByNodeList.get(nodes) ?? new Map<string, TopologyDomains>();
  domainsByNodeList.set(nodes, byKey);
  let found = byKey.get(key);
  if (found === undefined) {
    const names = new Set<string>();
    let coversAllNodes = true;
    for (const info of nodes) {
      const name = info.label(key);
      if (name === undefined) coversAllNodes = false;
      else names.add(name);
    }
    byKey.set(key, (found = { names, coversAllNodes }));
  }
  return found;
}

/** The number of pods that match a topology spread constraint in each domain, including changes by dry runs. */
export class DomainCounts {
  readonly constraint: SpreadConstraint;
  /** 1 if the pod itself matches the constraint's selector, otherwise 0. */
  readonly selfMatch: 0 | 1;
  readonly #domains: ReadonlySet<string>;
  readonly #counted: ReadonlyMap<string, number>;
  #changes: Map<string, number> | undefined;
  #minCount: number | undefined;

  constructor(constraint: SpreadConstraint, selfMatch: 0 | 1, domains: ReadonlySet<string>, counted: ReadonlyMap<string, number>) {
    this.constraint = constraint;
    this.selfMatch = selfMatch;
    this.#domains = domains;
    this.#counted = counted;
  }

  of(domain: string): number {
    return (this.#counted.get(domain) ?? 0) + (this.#changes?.get(domain) ?? 0);
  }

  /** The smallest number of matching pods in a domain; 0 if there are fewer domains than minDomains. */
  get minCount(): number {
    if (this.#minCount !== undefined) return this.#minCount;
    let min = this.#domains.size < this.constraint.minDomains ? 0 : Number.POSITIVE_INFINITY;
    for (const domain of this.#domains) min = Math.min(min, this.of(domain));
    this.#minCount = min;
    return min;
  }

  adjust(domain: string, by: 1 | -1): void {
    this.#changes ??= new Map();
    this.#changes.set(domain, (this.#changes.get(domain) ?? 0) + by);
    this.#minCount = undefined;
  }
}

/** Counts pods by domain. Considers nodes that have the topology keys of all constraints and that the constraint's policies include. */
export function countDomains(constraint: SpreadConstraint, all: readonly SpreadConstraint[], pod: Pod, snapshot: Snapshot): DomainCounts {
  const { key, selector, countsNode } = constraint;
  const { nodes } = snapshot;
  const selfMatch = selector.matches(pod) ? 1 : 0;
  const usesAllNodes = all.length === 1 || all.every((each) => domainsOf(nodes, each.key).coversAllNodes);
  if (countsNode === undefined && usesAllNodes)
    return new DomainCounts(constraint, selfMatch, domainsOf(nodes, key).names, snapshot.podCountByLabel(selector, key));
  const byNode = snapshot.podCountByNode(selector);
  const byDomain = new Map<string, number>();
  for (const info of nodes) {
    if (!hasAllTopologyKeys(info, all) || countsNode?.(info.node) === false) continue;
    const domain = info.label(key) ?? '';
    byDomain.set(domain, (byDomain.get(domain) ?? 0) + (byNode.get(info.name) ?? 0));
  }
  return new DomainCounts(constraint, selfMatch, new Set(byDomain.keys()), byDomain);
}
