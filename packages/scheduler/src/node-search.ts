import { unresolvable, type NodeInfo, type PodInfo } from '@oarlock/spi/scheduling';
import { preFilter, refusal, type Cycle, type Refusal } from './cycle.ts';
import type { Framework } from './framework.ts';

/** Stands for the plugin that refused where there was no node to be refused by. */
export const noNodes = 'no nodes';

const fewest = 100; // below so many nodes all are looked at

/** How many fitting nodes are enough: all of a small cluster, a shrinking part of a large one, at least 5 % (KEP-0039). */
export function enough(nodes: number, percentage: number | undefined): number {
  if (nodes < fewest || percentage === 100) return nodes;
  const part = percentage ?? Math.max(5, 50 - Math.floor(nodes / 125));
  return Math.max(fewest, Math.floor((nodes * part) / 100));
}

export interface SearchResult {
  readonly fits: readonly NodeInfo[];
  readonly tried: number;
  readonly refusals: ReadonlyMap<string, Refusal>;
  /** Refused before any node was looked at. */
  readonly everywhere?: Refusal;
  /** Who had a say in it. */
  readonly by: ReadonlySet<string>;
}

/** Looks for nodes that fit, each search beginning where the last one ended, so that all nodes get their turn. */
export class NodeSearch {
  #start = 0;

  run(framework: Framework, percentage: number | undefined, cycle: Cycle, pod: PodInfo, all = false): SearchResult {
    const { refused, nodes: narrowed, by: narrowedBy } = preFilter(framework, cycle, pod);
    const { nodes } = cycle.snapshot;
    const refusals = new Map<string, Refusal>();
    const by = new Set<string>();
    if (refused !== undefined) {
      for (const { name } of nodes) refusals.set(name, refused);
      return { fits: [], tried: nodes.length, refusals, everywhere: refused, by: by.add(refused.plugin) };
    }
    const fits: NodeInfo[] = [];
    const candidates = narrowed === undefined ? nodes : [...narrowed].flatMap((name) => cycle.snapshot.get(name) ?? []);
    const nominated = all ? undefined : cycle.nominatedNode(pod);
    if (nominated !== undefined && narrowed?.has(nominated) !== false) {
      const node = cycle.snapshot.get(nominated);
      if (node !== undefined && refusal(framework, cycle, pod, node) === undefined) return { fits: [node], tried: 1, refusals, by };
    }
    const wanted = all ? candidates.length : enough(candidates.length, percentage);
    let tried = 0;
    for (; tried < candidates.length && fits.length < wanted; tried++) {
      const node = candidates[(this.#start + tried) % candidates.length];
      if (node === undefined) continue;
      const found = refusal(framework, cycle, pod, node);
      if (found === undefined) fits.push(node);
      else {
        refusals.set(node.name, found);
        by.add(found.plugin);
      }
    }
    if (!all && narrowed === undefined && candidates.length > 0) this.#start = (this.#start + tried) % candidates.length;
    if (narrowed !== undefined && (all || fits.length === 0)) {
      const outcome = unresolvable(`node(s) didn't satisfy plugin(s) [${narrowedBy.join(' ')}]`);
      const outside = { plugin: narrowedBy[0] ?? '', outcome };
      for (const { name } of nodes) if (!narrowed.has(name)) refusals.set(name, outside);
      for (const plugin of narrowedBy) by.add(plugin);
    }
    return { fits, tried, refusals, by };
  }
}

/** `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).` */
export function unschedulableMessage(total: number, refusals: ReadonlyMap<string, Refusal>, everywhere?: Refusal): string {
  if (total === 0) return 'no nodes available to schedule pods';
  const reasons =
    everywhere === undefined
      ? [...countReasons(refusals)].map(([reason, count]) => `${count} ${reason}`).sort()
      : 'reasons' in everywhere.outcome
        ? everywhere.outcome.reasons
        : [];
  return `0/${total} nodes are available${reasons.length > 0 ? `: ${reasons.join(', ')}` : ''}.`;
}

export function countReasons(refusals: ReadonlyMap<string, Refusal>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { outcome } of refusals.values())
    for (const reason of 'reasons' in outcome ? outcome.reasons : []) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return counts;
}
