import { errorText } from '@oarlock/primitives/error-text';
import {
  errorStatus,
  success,
  unschedulableAndUnresolvable,
  type BindContext,
  type NodeDryRun,
  type NodeInfo,
  type NodeToStatus,
  type PodInfo,
  type Status,
} from '@oarlock/spi/scheduling';
import { CachedNodeInfo } from '../cache/scheduler-cache.ts';
import type { SchedulingCycleState } from './cycle-state.ts';
import type { Framework } from './framework.ts';
import { asPluginStatus, isSuccess, statusMessage, type PluginStatus, type Rejection } from './plugin-status.ts';

export interface PreFilterResult {
  /** The first rejection by a plugin, which applies to all nodes. */
  readonly rejection?: Rejection;
  /** Names of the nodes to evaluate; undefined: all nodes. */
  readonly nodeNames?: ReadonlySet<string>;
  /** Names of the plugins that restricted `nodeNames`. */
  readonly plugins: readonly string[];
}

/**
 * Runs preFilter of all plugins. Records the plugins that return `skip`, and intersects the node names that the plugins return.
 *
 * Runs the other plugins after the status `unschedulable`, because preemption may help then, and its dry runs read the state of every plugin.
 */
export function runPreFilterPlugins(framework: Framework, state: SchedulingCycleState, pod: PodInfo): PreFilterResult {
  let nodeNames = state.allowedNodes;
  const plugins: string[] = nodeNames === undefined ? [] : ['GangScheduling'];
  let rejection: Rejection | undefined;
  for (const plugin of framework.pluginsAt('preFilter')) {
    const status = plugin.preFilter?.(state, pod) ?? success;
    if (status.code === 'skip') state.skippedPlugins.add(plugin);
    else if (status.code === 'unschedulable') rejection = { plugin: plugin.name, status };
    else if (status.code !== 'success')
      return { rejection: { plugin: plugin.name, status: asPluginStatus(plugin.name, 'PreFilter', status) }, plugins: [] };
    else if ('nodes' in status) {
      const allowed = status.nodes as ReadonlySet<string>;
      plugins.push(plugin.name);
      nodeNames = nodeNames === undefined ? allowed : new Set([...nodeNames].filter((name) => allowed.has(name)));
      if (nodeNames.size === 0) return { rejection: noCommonNode(plugins.sort()), plugins };
    }
  }
  return { ...(rejection && { rejection }), ...(nodeNames && { nodeNames }), plugins: plugins.sort() };
}

/** Returns upstream's rejection of a pod for which the named plugins leave no node. */
const noCommonNode = (plugins: readonly string[]): Rejection => ({
  plugin: plugins[0] ?? '',
  status: unschedulableAndUnresolvable(
    plugins.length === 1
      ? `node(s) didn't satisfy plugin ${plugins[0]}`
      : `node(s) didn't satisfy plugin(s) [${plugins.join(' ')}] simultaneously`,
  ),
});

function runFilterPlugins(state: SchedulingCycleState, pod: PodInfo, node: NodeInfo): Rejection | undefined {
  for (const plugin of state.filterPlugins) {
    const status = plugin.filter?.(state, pod, node) ?? success;
    if (status === success || isSuccess(status)) continue;
    if (status.code !== 'error') return { plugin: plugin.name, status };
    return { plugin: plugin.name, status: errorStatus(`running ${JSON.stringify(plugin.name)} filter plugin: ${statusMessage(status)}`) };
  }
  return undefined;
}

/**
 * Returns the first rejection of the node by a filter plugin, or undefined if the pod fits.
 *
 * If pods of equal or higher priority are nominated to the node, the pod must fit with them, because they will use their nominated
 * node, and also without them, because they may be scheduled elsewhere.
 */
export function runFilterPluginsWithNominatedPods(
  framework: Framework,
  state: SchedulingCycleState,
  pod: PodInfo,
  node: NodeInfo,
): Rejection | undefined {
  const nominatedPods = state.nominator?.higherPriorityPods(node.name, pod);
  if (nominatedPods !== undefined) {
    const dryRun = new FrameworkNodeDryRun(framework, state, pod, node);
    for (const nominatedPod of nominatedPods) dryRun.addPod(nominatedPod);
    const rejection = runFilterPlugins(state, pod, dryRun.node);
    dryRun.revert();
    if (rejection !== undefined) return rejection;
  }
  return runFilterPlugins(state, pod, node);
}

/** A copy of a node to which pods can be added and removed; the addPod and removePod extensions keep the plugins' state consistent. */
class FrameworkNodeDryRun implements NodeDryRun {
  readonly node: CachedNodeInfo;
  readonly #framework: Framework;
  readonly #state: SchedulingCycleState;
  readonly #pod: PodInfo;
  readonly #undo: (() => void)[] = [];

  constructor(framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: NodeInfo) {
    this.node = CachedNodeInfo.copyOf(node);
    this.#framework = framework;
    this.#state = state;
    this.#pod = pod;
  }
  addPod(pod: PodInfo): void {
    this.#add(pod);
    this.#undo.push(() => this.#remove(pod));
  }
  removePod(pod: PodInfo): void {
    this.#remove(pod);
    this.#undo.push(() => this.#add(pod));
  }
  runFilters(): Status | undefined {
    return runFilterPluginsWithNominatedPods(this.#framework, this.#state, this.#pod, this.node)?.status;
  }
  revert(): void {
    for (let undo = this.#undo.pop(); undo !== undefined; undo = this.#undo.pop()) undo();
  }
  #add(pod: PodInfo): void {
    this.node.addPod(pod);
    for (const plugin of this.#framework.pluginsAt('preFilter'))
      if (!this.#state.skippedPlugins.has(plugin)) plugin.addPod?.(this.#state, this.#pod, pod, this.node);
  }
  #remove(pod: PodInfo): void {
    this.node.removePod(pod.key);
    for (const plugin of this.#framework.pluginsAt('preFilter'))
      if (!this.#state.skippedPlugins.has(plugin)) plugin.removePod?.(this.#state, this.#pod, pod, this.node);
  }
}

export const newNodeDryRun = (framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: NodeInfo): NodeDryRun =>
  new FrameworkNodeDryRun(framework, state, pod, node);

export interface PostFilterResult {
  /** The reasons of PostFilter plugins to append to the fit error, beginning with a space; '' if there are none. */
  readonly messageSuffix: string;
  /** The node to nominate the pod to. undefined keeps the current nomination; '' clears it. */
  readonly nominatedNodeName?: string;
}

/**
 * Runs PostFilter plugins until one succeeds, fails with an error or cannot be resolved; the reasons of the last two replace those of the plugins
 * before. Appends the reasons to the fit error.
 */
export async function runPostFilterPlugins(
  framework: Framework,
  state: SchedulingCycleState,
  pod: PodInfo,
  nodeToStatus: NodeToStatus,
): Promise<PostFilterResult> {
  const plugins = framework.pluginsAt('postFilter');
  if (plugins.length === 0) return { messageSuffix: '', nominatedNodeName: '' };
  const startedAt = state.observer.now();
  const reasons: string[] = [];
  let nominatedNodeName: string | undefined;
  const result = (code: Status['code'], messageSuffix: string) => {
    state.observer.observe('PostFilter', code, startedAt);
    return { messageSuffix, ...(nominatedNodeName !== undefined && { nominatedNodeName }) };
  };
  for (const plugin of plugins) {
    const status = await plugin.postFilter?.(state, pod, nodeToStatus);
    if (status === undefined) continue;
    nominatedNodeName = status.nominatedNodeName ?? nominatedNodeName;
    if (status.code === 'success') return result('success', '');
    if (!('reasons' in status)) continue;
    if (status.code === 'unresolvable' || status.code === 'error') return result(status.code, suffixOf(status.reasons));
    reasons.push(...status.reasons);
  }
  return result('unschedulable', suffixOf(reasons));
}

const suffixOf = (reasons: readonly string[]): string => (reasons.length === 0 ? '' : ` ${reasons.join(', ')}`);

/** Runs the reserve plugins in order. If a plugin rejects the pod or throws, runs unreserve of all plugins and returns the rejection. */
export async function runReservePlugins(
  framework: Framework,
  state: SchedulingCycleState,
  pod: PodInfo,
  node: string,
): Promise<PluginStatus> {
  const startedAt = state.observer.now();
  for (const plugin of framework.pluginsAt('reserve')) {
    const status = await statusOf(() => plugin.reserve?.(state, pod, node));
    if (!isSuccess(status)) {
      state.observer.observe('Reserve', status.code, startedAt);
      runUnreservePlugins(framework, state, pod, node);
      return asPluginStatus(plugin.name, 'Reserve', status);
    }
  }
  state.observer.observe('Reserve', 'success', startedAt);
  return success;
}

/** Returns the status of a call, or a status with the code `error` if the plugin throws. */
async function statusOf(call: () => Status | undefined | Promise<Status | undefined>): Promise<Status> {
  try {
    return (await call()) ?? success;
  } catch (error) {
    return errorStatus(errorText(error));
  }
}
function permitStatusOf<T extends { readonly code: string }>(call: () => T | undefined): T | Status {
  try {
    return call() ?? success;
  } catch (error) {
    return errorStatus(errorText(error));
  }
}

export function runUnreservePlugins(framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: string): void {
  const startedAt = state.observer.now();
  for (const plugin of framework.pluginsAt('reserve').toReversed()) plugin.unreserve?.(state, pod, node);
  state.observer.observe('Unreserve', 'success', startedAt);
}

/**
 * Runs the permit plugins. Returns the timeout in milliseconds of each plugin that makes the pod wait (undefined if none does), or the first
 * rejection.
 */
export function runPermitPlugins(
  framework: Framework,
  state: SchedulingCycleState,
  pod: PodInfo,
  node: string,
): PluginStatus | ReadonlyMap<string, number> | undefined {
  const startedAt = state.observer.now();
  let timeouts: Map<string, number> | undefined;
  for (const plugin of framework.pluginsAt('permit')) {
    const status = permitStatusOf(() => plugin.permit?.(state, pod, node));
    if (status.code === 'wait') (timeouts ??= new Map()).set(plugin.name, status.timeoutMs);
    else if (!isSuccess(status)) {
      state.observer.observe('Permit', status.code, startedAt);
      return asPluginStatus(plugin.name, 'Permit', status);
    }
  }
  state.observer.observe('Permit', timeouts === undefined ? 'success' : 'wait', startedAt);
  return timeouts;
}

/** Returns true if a plugin has work to do in preBind, which may take long (PreBindPreFlight upstream). */
export const runPreBindPreFlights = (framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: string): boolean =>
  framework.pluginsAt('preBind').some((plugin) => plugin.preBindPreFlight?.(state, pod, node).code !== 'skip');

/** Runs the preBind plugins. Returns the first rejection, or undefined if all plugins succeed. */
export async function runPreBindPlugins(
  framework: Framework,
  state: SchedulingCycleState,
  { pod, node, context }: { readonly pod: PodInfo; readonly node: string; readonly context: BindContext },
): Promise<PluginStatus | undefined> {
  const startedAt = state.observer.now();
  for (const plugin of framework.pluginsAt('preBind')) {
    const status = (await plugin.preBind?.(state, pod, node, context)) ?? success;
    if (isSuccess(status)) continue;
    state.observer.observe('PreBind', status.code, startedAt);
    return asPluginStatus(plugin.name, 'PreBind', status);
  }
  state.observer.observe('PreBind', 'success', startedAt);
  return undefined;
}

/** Runs the bind plugins in order. Returns the first status that is not `skip`. */
export async function runBindPlugins(
  framework: Framework,
  state: SchedulingCycleState,
  { pod, node, context }: { readonly pod: PodInfo; readonly node: string; readonly context: BindContext },
): Promise<PluginStatus> {
  const startedAt = state.observer.now();
  for (const plugin of framework.pluginsAt('bind')) {
    const status = (await plugin.bind?.(state, pod, node, context)) ?? success;
    if (status.code === 'skip') continue;
    state.observer.observe('Bind', status.code, startedAt);
    return asPluginStatus(plugin.name, 'Bind', status);
  }
  return { code: 'error', reasons: ['no plugin bound the pod'] };
}

export function runPostBindPlugins(
  framework: Framework,
  state: SchedulingCycleState,
  { pod, node }: { readonly pod: PodInfo; readonly node: string },
): void {
  const plugins = framework.pluginsAt('postBind');
  if (plugins.length === 0) return;
  const startedAt = state.observer.now();
  for (const plugin of plugins) plugin.postBind?.(state, pod, node);
  state.observer.observe('PostBind', 'success', startedAt);
}
