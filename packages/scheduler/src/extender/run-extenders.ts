import type { Logger } from '@oarlock/primitives/logger';
import type { NodeInfo, PodInfo, Snapshot } from '@oarlock/spi/scheduling';
import type { CallPreemptionExtenders } from '../framework/cycle-state.ts';
import type { FeasibleNodes } from '../framework/feasible-nodes.ts';
import type { Rejection } from '../framework/plugin-status.ts';
import type { Extender } from './extender.ts';

/** The pod and the feasible nodes that the extenders filter. */
export interface ExtenderFilterRequest {
  readonly podInfo: PodInfo;
  readonly found: FeasibleNodes;
  readonly snapshot: Snapshot;
  readonly signal: AbortSignal;
}

/** Returns the nodes that all extenders accept. Skips extenders that are not interested in the pod. */
export async function findNodesThatPassExtenders(
  extenders: readonly Extender[],
  { podInfo: { pod }, found, snapshot, signal }: ExtenderFilterRequest,
): Promise<FeasibleNodes> {
  let result = found;
  for (const extender of extenders) {
    if (result.feasible.length === 0 || !extender.isFilter || !extender.isInterested(pod)) continue;
    const { feasible } = result;
    const { passed, rejected } = await ignoreIfIgnorable(extender, { passed: feasible, rejected: new Map<string, Rejection>() }, () =>
      extender.filter(pod, feasible, signal),
    );
    result = {
      ...result,
      // the node may have been deleted during the call
      feasible: passed.filter(({ name }) => snapshot.get(name) !== undefined),
      nodeToStatus: new Map([...result.nodeToStatus, ...rejected]),
      unschedulablePlugins: new Set([...result.unschedulablePlugins, extender.name]),
    };
  }
  return result;
}

/** The pod and the scored nodes to which the extenders add. */
export interface ExtenderScoreRequest {
  readonly podInfo: PodInfo;
  readonly nodes: readonly NodeInfo[];
  readonly totals: Float64Array;
}

/** Adds the extenders' scores to `totals`, in the order of `nodes`. As upstream, a failed extender does not fail the cycle. */
export async function addExtenderScores(
  extenders: readonly Extender[],
  { podInfo: { pod }, nodes, totals }: ExtenderScoreRequest,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  for (const extender of extenders) {
    if (!extender.isPrioritizer || !extender.isInterested(pod)) continue;
    const scores = await extender.prioritize(pod, nodes, signal).catch((error: unknown) => {
      log.warn({ extender: extender.name, err: error }, 'an extender failed to score the nodes');
      return new Map<string, number>();
    });
    for (const [index, { name }] of nodes.entries()) totals[index] = (totals[index] ?? 0) + (scores.get(name) ?? 0);
  }
}

/** Returns a function that passes preemption candidates through the extenders, or undefined if no extender takes part in preemption. */
export function preemptionExtenders(
  extenders: readonly Extender[],
  snapshot: Snapshot,
  signal: AbortSignal,
): CallPreemptionExtenders | undefined {
  const preemptors = extenders.filter(({ isPreemptor }) => isPreemptor);
  if (preemptors.length === 0) return undefined;
  return async ({ pod }, candidates) => {
    let remaining = candidates;
    for (const extender of preemptors) {
      if (remaining.length === 0 || !extender.isInterested(pod)) continue;
      const before = remaining;
      remaining = await ignoreIfIgnorable(extender, before, () =>
        extender.processPreemption(pod, { candidates: before, snapshot, signal }),
      );
    }
    return remaining;
  };
}

/** The pod and the node that an extender binds. */
export interface ExtenderBindRequest {
  readonly podInfo: PodInfo;
  readonly node: string;
  readonly signal: AbortSignal;
}

/**
 * Binds the pod through the first extender that binds the pod. Returns false if a bind plugin must bind the pod instead: there is no such extender,
 * or the extender is ignorable and failed.
 */
export async function runExtenderBind(
  extenders: readonly Extender[],
  { podInfo: { pod }, node, signal }: ExtenderBindRequest,
): Promise<boolean> {
  const extender = extenders.find((each) => each.isBinder && each.isInterested(pod));
  if (extender === undefined) return false;
  return ignoreIfIgnorable(extender, false, async () => {
    await extender.bind(pod, node, signal);
    return true;
  });
}

/** Runs `call`. Returns `fallback` if the call fails and the extender is ignorable. @throws the error of other extenders */
async function ignoreIfIgnorable<T>(extender: Extender, fallback: T, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (extender.isIgnorable) return fallback;
    throw error;
  }
}
