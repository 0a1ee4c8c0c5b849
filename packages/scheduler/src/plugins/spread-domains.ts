import type { Pod } from '@oarlock/api/types/core-v1';
import type { NodeInfo, Snapshot } from '@oarlock/spi/scheduling';
import { hasAll, type Constraint } from './spread-constraint.ts';

interface Domains {
  readonly names: ReadonlySet<string>;
  /** Every node is in one. */
  readonly everywhere: boolean;
}

const known = new WeakMap<readonly NodeInfo[], Map<string, Domains>>();

/** The values that nodes have for a label. The list of nodes is another one as soon as one of them has other labels. */
function domainsOf(nodes: readonly NodeInfo[], key: string): Domains {
  const byKey = known.get(nodes) ?? new Map<string, Domains>();
  known.set(nodes, byKey);
  let found = byKey.get(key);
  if (found === undefined) {
    const names = new Set<string>();
    let everywhere = true;
    for (const info of nodes) {
      const name = info.label(key);
      if (name === undefined) everywhere = false;
      else names.add(name);
    }
    byKey.set(key, (found = { names, everywhere }));
  }
  return found;
}

/** How many pods that a constraint goes by each domain has, while preemption tries pods on and off. */
export class DomainCounts {
  readonly constraint: Constraint;
  /** Whether the pod itself is one of those that are counted. */
  readonly self: 0 | 1;
  readonly #domains: ReadonlySet<string>;
  readonly #counted: ReadonlyMap<string, number>;
  #changes: Map<string, number> | undefined;
  #fewest: number | undefined;

  constructor(constraint: Constraint, self: 0 | 1, domains: ReadonlySet<string>, counted: ReadonlyMap<string, number>) {
    this.constraint = constraint;
    this.self = self;
    this.#domains = domains;
    this.#counted = counted;
  }

  of(domain: string): number {
    return (this.#counted.get(domain) ?? 0) + (this.#changes?.get(domain) ?? 0);
  }

  /** The fewest in any domain; none, when there are fewer domains than there have to be. */
  get fewest(): number {
    if (this.#fewest !== undefined) return this.#fewest;
    let fewest = this.#domains.size < this.constraint.minDomains ? 0 : Number.POSITIVE_INFINITY;
    for (const domain of this.#domains) fewest = Math.min(fewest, this.of(domain));
    this.#fewest = fewest;
    return fewest;
  }

  change(domain: string, by: 1 | -1): void {
    this.#changes ??= new Map();
    this.#changes.set(domain, (this.#changes.get(domain) ?? 0) + by);
    this.#fewest = undefined;
  }
}

/** Only nodes with the labels of all constraints count, and of those the ones that the constraint includes. */
export function domainCounts(constraint: Constraint, all: readonly Constraint[], pod: Pod, snapshot: Snapshot): DomainCounts {
  const { key, selection, includes } = constraint;
  const { nodes } = snapshot;
  const self = selection.selects(pod) ? 1 : 0;
  const alike = all.length === 1 || all.every((each) => domainsOf(nodes, each.key).everywhere);
  if (includes === undefined && alike)
    return new DomainCounts(constraint, self, domainsOf(nodes, key).names, snapshot.countBy(selection, key));
  const byNode = snapshot.count(selection);
  const byDomain = new Map<string, number>();
  for (const info of nodes) {
    if (!hasAll(info, all) || includes?.(info.node) === false) continue;
    const domain = info.label(key) ?? '';
    byDomain.set(domain, (byDomain.get(domain) ?? 0) + (byNode.get(info.name) ?? 0));
  }
  return new DomainCounts(constraint, self, new Set(byDomain.keys()), byDomain);
}
