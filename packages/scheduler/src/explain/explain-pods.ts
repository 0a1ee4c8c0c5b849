import { objectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodInfo } from '@oarlock/spi/scheduling';
import type { SchedulerCache } from '../cache/scheduler-cache.ts';
import type { SchedulingProfile } from '../config/profiles.ts';
import { SchedulingCycleState } from '../framework/cycle-state.ts';
import { FeasibleNodeFinder, type FeasibleNodes } from '../framework/feasible-nodes.ts';
import { fitErrorMessage } from '../framework/fit-error.ts';
import type { Framework } from '../framework/framework.ts';
import { statusMessage } from '../framework/plugin-status.ts';
import { runScorePlugins } from '../framework/run-score-plugins.ts';
import { newPodInfo } from '../pod-info/pod-info.ts';
import type { Nominator } from '../queue/nominator.ts';
import type { Explanation, NodeChanges, NodeExplanation } from './explainer.ts';

interface ExplainOptions {
  readonly cache: SchedulerCache;
  readonly nominator: Nominator;
  profileOf(pod: Pod): SchedulingProfile | undefined;
}

/**
 * Explains pods in order; each pod is assumed on its best node before the next pod is explained. Reverts all changes of the cache. Runs
 * synchronously, so that no scheduling cycle sees the changes.
 */
export function explainPods(pods: readonly Pod[], options: ExplainOptions, changes: NodeChanges = {}): readonly Explanation[] {
  const undo: (() => void)[] = [];
  try {
    changeNodes(options.cache, changes, undo);
    return pods.map((pod) => explainPod(pod, options, undo));
  } finally {
    for (const revert of undo.toReversed()) revert();
  }
}

/** Changes nodes of the cache, and adds functions that restore them to `undo`: each before its change, because an invalid quantity ends a change halfway. */
function changeNodes(cache: SchedulerCache, { nodes = [], removedNodes = [] }: NodeChanges, undo: (() => void)[]): void {
  const restoreLater = (name: string) => {
    const original = cache.get(name)?.node;
    undo.push(() => (original === undefined ? cache.removeNode(name) : cache.setNode(original)));
  };
  for (const name of removedNodes) {
    if (cache.get(name) === undefined) continue;
    restoreLater(name);
    cache.removeNode(name);
  }
  for (const node of nodes) {
    restoreLater(node.metadata?.name ?? '');
    cache.setNode(node);
  }
}

function explainPod(pod: Pod, { cache, nominator, profileOf }: ExplainOptions, undo: (() => void)[]): Explanation {
  const { namespace = '', name = '' } = pod.metadata ?? {};
  const bound = pod.spec?.nodeName;
  const identity = { namespace, name, ...(bound && { bound }) };
  const profile = profileOf(pod);
  if (profile === undefined)
    return { ...identity, message: `no profile of this scheduler is named ${JSON.stringify(pod.spec?.schedulerName)}`, nodes: [] };
  const { framework } = profile;
  const gate = framework.preEnqueue(pod);
  const unbound = bound ? withoutNodeName(pod) : newPodInfo(pod);
  removeFromCache(pod, cache, undo);

  const state = new SchedulingCycleState(cache, framework, { nominator });
  const found = new FeasibleNodeFinder().findNodesThatFitPod(framework, undefined, state, unbound, true);
  const scored = scoreNodes(framework, { state, pod: unbound, feasibleNodes: found });
  const chosen = scored[0]?.node;
  if (chosen !== undefined && !bound && gate === undefined) {
    cache.assumePod(unbound, chosen);
    undo.push(() => cache.forgetPod(unbound.key));
  }
  const message =
    gate !== undefined
      ? `gated by ${gate.plugin}: ${statusMessage(gate)}`
      : chosen === undefined
        ? (found.error ?? fitErrorMessage(cache.nodes.length, found.nodeToStatus, found.preFilterRejection))
        : undefined;
  return {
    ...identity,
    ...(chosen !== undefined && gate === undefined && { chosen }),
    ...(message !== undefined && { message }),
    nodes: [...scored, ...rejectedNodes(found)],
  };
}

function withoutNodeName(pod: Pod): PodInfo {
  const { nodeName: _nodeName, ...spec } = pod.spec ?? {};
  return newPodInfo({ ...pod, spec: spec as NonNullable<Pod['spec']> });
}

/**
 * Removes the pod with this name from its node and adds a function that restores it to `undo`: also if the explained pod is a changed copy without a node, which
 * would otherwise replace it.
 */
function removeFromCache(pod: Pod, cache: SchedulerCache, undo: (() => void)[]): void {
  const key = objectKey(pod);
  const [original, node] = [cache.podInfoOf(key), cache.nodeOf(key)];
  if (original === undefined || node === undefined) return;
  if (cache.isAssumedPod(key)) {
    cache.forgetPod(key);
    undo.push(() => cache.assumePod(original, node));
  } else {
    cache.removePod(key);
    undo.push(() => cache.setPod(original.pod));
  }
}

/** Returns the feasible nodes with their scores, the best node first. */
function scoreNodes(
  framework: Framework,
  {
    state,
    pod,
    feasibleNodes: { feasible },
  }: { readonly state: SchedulingCycleState; readonly pod: PodInfo; readonly feasibleNodes: FeasibleNodes },
): NodeExplanation[] {
  const scoresByPlugin = new Map<string, Float64Array>();
  const totals = feasible.length === 0 ? new Float64Array() : runScorePlugins(framework, state, { pod, nodes: feasible, scoresByPlugin });
  const nodes = feasible.map(({ name: node }, index) => ({
    node,
    score: totals[index] ?? 0,
    scores: Object.fromEntries([...scoresByPlugin].map(([plugin, scores]) => [plugin, scores[index] ?? 0])),
  }));
  return nodes.sort((a, b) => b.score - a.score || (a.node < b.node ? -1 : 1));
}

const rejectedNodes = ({ nodeToStatus }: FeasibleNodes): NodeExplanation[] =>
  [...nodeToStatus].map(([node, { plugin, status }]) => ({
    node,
    rejectedBy: plugin,
    reasons: 'reasons' in status ? status.reasons : [],
  }));
