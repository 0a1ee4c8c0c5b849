import { unschedulableAndUnresolvable, type NodeInfo, type PodInfo } from '@oarlock/spi/scheduling';
import type { SchedulingCycleState } from './cycle-state.ts';
import type { Framework } from './framework.ts';
import { statusMessage, type Rejection } from './plugin-status.ts';
import { runFilterPluginsWithNominatedPods, runPreFilterPlugins, type PreFilterResult } from './run-plugins.ts';

/** The entry of `unschedulablePlugins` for a cluster without nodes. */
export const noNodesAvailable = 'no nodes';

/** Minimum number of feasible nodes to find. In a cluster with fewer nodes, all nodes are evaluated. */
const minFeasibleNodesToFind = 100;
/** The lower limit of the adaptive percentage of nodes. */
const minFeasibleNodesPercentage = 5;

/**
 * Returns the number of feasible nodes at which the search ends, as upstream does: all nodes of a small cluster, otherwise `percentage` of the nodes.
 * Without `percentage`, the share is 50 %, reduced by 1 % per 125 nodes, and at least 5 %.
 */
export function numFeasibleNodesToFind(nodeCount: number, percentage: number | undefined): number {
  if (nodeCount < minFeasibleNodesToFind || percentage === 100) return nodeCount;
  const adaptive = percentage ?? Math.max(minFeasibleNodesPercentage, 50 - Math.floor(nodeCount / 125));
  return Math.max(minFeasibleNodesToFind, Math.floor((nodeCount * adaptive) / 100));
}

export interface FeasibleNodes {
  readonly feasible: readonly NodeInfo[];
  /** Number of nodes that were evaluated. */
  readonly evaluated: number;
  readonly nodeToStatus: ReadonlyMap<string, Rejection>;
  /** The rejection by a preFilter plugin, which applies to all nodes. */
  readonly preFilterRejection?: Rejection;
  /** The message of an error of a plugin, which ends the search; the pod is retried after a backoff. */
  readonly error?: string;
  readonly unschedulablePlugins: ReadonlySet<string>;
}

/** Finds feasible nodes. Each search starts at the node after the last one evaluated, so that all nodes are considered equally. */
export class FeasibleNodeFinder {
  #nextStartNodeIndex = 0;

  /**
   * Finds feasible nodes. With `evaluateAll`, the search neither stops early nor prefers the nominated node, and the next search starts at the
   * same node.
   */
  findNodesThatFitPod(
    framework: Framework,
    percentage: number | undefined,
    state: SchedulingCycleState,
    pod: PodInfo,
    evaluateAll = false,
  ): FeasibleNodes {
    const { snapshot, observer } = state;
    const preFilterAt = observer.now();
    const preFilterResult = runPreFilterPlugins(framework, state, pod);
    const { rejection, nodeNames } = preFilterResult;
    observer.observe('PreFilter', rejection?.status.code ?? 'success', preFilterAt);
    if (rejection !== undefined) return rejectedByPreFilter(state, rejection, preFilterResult.plugins);
    if (!evaluateAll && fitsNominatedNode(framework, state, pod, nodeNames)) return nominatedNodeOnly(state, pod);

    const candidates = nodeNames === undefined ? snapshot.nodes : [...nodeNames].flatMap((name) => snapshot.get(name) ?? []);
    const feasible: NodeInfo[] = [];
    const nodeToStatus = new Map<string, Rejection>();
    const unschedulablePlugins = new Set<string>();
    const enough = evaluateAll ? candidates.length : numFeasibleNodesToFind(candidates.length, percentage);
    let evaluated = 0;
    let error: string | undefined;
    const filterAt = observer.now();
    for (; evaluated < candidates.length && feasible.length < enough && error === undefined; evaluated++) {
      const node = candidates[(this.#nextStartNodeIndex + evaluated) % candidates.length];
      if (node === undefined) continue;
      const nodeRejection = runFilterPluginsWithNominatedPods(framework, state, pod, node);
      if (nodeRejection === undefined) feasible.push(node);
      else if (nodeRejection.status.code === 'error') error = statusMessage(nodeRejection.status);
      else {
        nodeToStatus.set(node.name, nodeRejection);
        unschedulablePlugins.add(nodeRejection.plugin);
      }
    }
    observer.observe('Filter', error === undefined ? 'success' : 'error', filterAt);
    if (!evaluateAll && snapshot.nodes.length > 0)
      this.#nextStartNodeIndex = (this.#nextStartNodeIndex + evaluated) % snapshot.nodes.length;
    if (evaluateAll || feasible.length === 0) addNodesExcludedByPreFilter(state, preFilterResult, nodeToStatus, unschedulablePlugins);
    if (error !== undefined) return { feasible: [], evaluated, nodeToStatus, unschedulablePlugins, error };
    return { feasible, evaluated, nodeToStatus, unschedulablePlugins };
  }
}

function rejectedByPreFilter(
  { snapshot: { nodes } }: SchedulingCycleState,
  rejection: Rejection,
  plugins: readonly string[],
): FeasibleNodes {
  return {
    ...(rejection.status.code === 'error' && { error: statusMessage(rejection.status) }),
    feasible: [],
    evaluated: nodes.length,
    nodeToStatus: new Map(nodes.map(({ name }) => [name, rejection])),
    preFilterRejection: rejection,
    unschedulablePlugins: new Set([...plugins, rejection.plugin]),
  };
}

function fitsNominatedNode(
  framework: Framework,
  state: SchedulingCycleState,
  pod: PodInfo,
  nodeNames: ReadonlySet<string> | undefined,
): boolean {
  const name = state.nominatedNodeName(pod);
  if (name === undefined || nodeNames?.has(name) === false) return false;
  const node = state.snapshot.get(name);
  return node !== undefined && runFilterPluginsWithNominatedPods(framework, state, pod, node) === undefined;
}

const nominatedNodeOnly = (state: SchedulingCycleState, pod: PodInfo): FeasibleNodes => ({
  feasible: [state.snapshot.get(state.nominatedNodeName(pod) ?? '') as NodeInfo],
  evaluated: 1,
  nodeToStatus: new Map(),
  unschedulablePlugins: new Set(),
});

function addNodesExcludedByPreFilter(
  { snapshot }: SchedulingCycleState,
  { nodeNames, plugins }: PreFilterResult,
  nodeToStatus: Map<string, Rejection>,
  unschedulablePlugins: Set<string>,
): void {
  if (nodeNames === undefined) return;
  const status = unschedulableAndUnresolvable(`node(s) didn't satisfy plugin(s) [${plugins.join(' ')}]`);
  const rejection = { plugin: plugins[0] ?? '', status };
  for (const { name } of snapshot.nodes) if (!nodeNames.has(name)) nodeToStatus.set(name, rejection);
  for (const plugin of plugins) unschedulablePlugins.add(plugin);
}
