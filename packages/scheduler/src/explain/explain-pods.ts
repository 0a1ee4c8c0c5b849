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
import { runScorePlugins } from '../framework/run-plugins.ts';
import { newPodInfo } from '../pod-info/pod-info.ts';
import type { Nominator } from '../queue/nominator.ts';
import type { Explanation, NodeExplanation } from './explainer.ts';

interface ExplainOptions {
  readonly cache: SchedulerCache;
  readonly nominator: Nominator;
  profileOf(pod: Pod): SchedulingProfile | undefined;
}

/**
 * Explains pods in order; each pod is assumed on its best node before the next pod is explained. Reverts all changes of the cache. Runs
 * synchronously, so that no scheduling cycle sees the changes.
 */
export function explainPods(pods: readonly Pod[], options: ExplainOptions): readonly Explanation[] {
  const undo: (() => void)[] = [];
  try {
    return pods.map((pod) => explainPod(pod, options, undo));
  } finally {
    for (const revert of undo.toReversed()) revert();
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
  const isAssigned = removeFromCache(pod, cache, undo);

  const state = new SchedulingCycleState(cache, framework, { nominator });
  const found = new FeasibleNodeFinder().findNodesThatFitPod(framework, undefined, state, unbound, true);
  const scored = scoreNodes(framework, { state, pod: unbound, feasibleNodes: found });
  const chosen = scored[0]?.node;
  if (chosen !== undefined && !isAssigned && gate === undefined) {
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

/** Removes a bound or assumed pod from its node and adds a function that restores the pod to `undo`. Returns false if the pod has no node. */
function removeFromCache(pod: Pod, cache: SchedulerCache, undo: (() => void)[]): boolean {
  const key = objectKey(pod);
  const assumedNode = cache.isAssumedPod(key) ? cache.nodeOf(key) : undefined;
  const isBound = Boolean(pod.spec?.nodeName);
  if (assumedNode !== undefined) {
    cache.forgetPod(key);
    undo.push(() => cache.assumePod(newPodInfo(pod), assumedNode));
  } else if (isBound && cache.removePod(key)) undo.push(() => cache.setPod(pod));
  return isBound || assumedNode !== undefined;
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
