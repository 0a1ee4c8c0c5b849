import type { NodeInfo, Outcome, PodInfo } from '@oarlock/spi/scheduling';
import { preFilter, refusal, type Cycle, type Framework } from './framework.ts';

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
  readonly refusals: ReadonlyMap<string, { readonly plugin: string; readonly outcome: Outcome }>;
}

/** Looks for nodes that fit, each search beginning where the last one ended, so that all nodes get their turn. */
export class NodeSearch {
  readonly #framework: Framework;
  readonly #percentage: number | undefined;
  #start = 0;

  constructor(framework: Framework, percentage: number | undefined) {
    this.#framework = framework;
    this.#percentage = percentage;
  }

  run(cycle: Cycle, pod: PodInfo, all = false): SearchResult {
    const { refused, nodes: narrowed } = preFilter(this.#framework, cycle, pod);
    const { nodes } = cycle.snapshot;
    const refusals = new Map<string, { readonly plugin: string; readonly outcome: Outcome }>();
    if (refused !== undefined) {
      for (const { name } of nodes) refusals.set(name, refused);
      return { fits: [], tried: nodes.length, refusals };
    }
    const fits: NodeInfo[] = [];
    const candidates = narrowed === undefined ? nodes : nodes.filter(({ name }) => narrowed.has(name));
    if (narrowed !== undefined) {
      const outside = {
        plugin: 'preFilter',
        outcome: { code: 'unresolvable', reasons: ["node(s) didn't satisfy plugin(s) preFilter"] },
      } as const;
      for (const { name } of nodes) if (!narrowed.has(name)) refusals.set(name, outside);
    }
    const nominated = all ? undefined : cycle.nominatedNode(pod);
    if (nominated !== undefined && narrowed?.has(nominated) !== false) {
      const node = cycle.snapshot.get(nominated);
      if (node !== undefined && refusal(this.#framework, cycle, pod, node) === undefined) return { fits: [node], tried: 1, refusals };
    }
    const wanted = all ? candidates.length : enough(candidates.length, this.#percentage);
    let tried = 0;
    for (; tried < candidates.length && fits.length < wanted; tried++) {
      const node = candidates[(this.#start + tried) % candidates.length];
      if (node === undefined) continue;
      const found = refusal(this.#framework, cycle, pod, node);
      if (found === undefined) fits.push(node);
      else refusals.set(node.name, found);
    }
    if (!all && narrowed === undefined && candidates.length > 0) this.#start = (this.#start + tried) % candidates.length;
    return { fits, tried, refusals };
  }
}

/** `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).` */
export function unschedulableMessage(total: number, refusals: SearchResult['refusals']): string {
  const counts = countReasons(refusals);
  const reasons = [...counts].map(([reason, count]) => `${count} ${reason}`).sort();
  if (total === 0) return '0/0 nodes are available: no nodes available to schedule pods';
  return `0/${total} nodes are available${reasons.length > 0 ? `: ${reasons.join(', ')}` : ''}.`;
}

export function countReasons(refusals: SearchResult['refusals']): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { outcome } of refusals.values())
    for (const reason of 'reasons' in outcome ? outcome.reasons : []) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return counts;
}
