import type { CycleState, NodeDryRun, NodeInfo, PodInfo, PreemptionCandidate, SchedulingPlugin, Snapshot } from '@oarlock/spi/scheduling';
import type { Nominator } from '../queue/nominator.ts';
import type { Framework } from './framework.ts';

export type CallPreemptionExtenders = (pod: PodInfo, candidates: readonly PreemptionCandidate[]) => Promise<readonly PreemptionCandidate[]>;

/** Copies a node to evaluate the pod of a cycle on it with other pods. */
export type NewNodeDryRun = (framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: NodeInfo) => NodeDryRun;

interface SchedulingCycleStateOptions {
  readonly nominator?: Nominator | undefined;
  /** Undefined if no extender takes part in preemption. */
  readonly callPreemptionExtenders?: CallPreemptionExtenders | undefined;
  /** The only nodes to evaluate: one topology domain of a pod group. */
  readonly allowedNodes?: ReadonlySet<string> | undefined;
  /** Undefined if the cycle does not run PostFilter plugins. */
  readonly newNodeDryRun?: NewNodeDryRun | undefined;
}

/** The state of one scheduling cycle. */
export class SchedulingCycleState implements CycleState {
  readonly snapshot: Snapshot;
  /** Plugins whose preFilter returned `skip`: their filter does not run. */
  readonly skippedPlugins = new Set<SchedulingPlugin>();
  readonly nominator: Nominator | undefined;
  readonly callPreemptionExtenders?: CallPreemptionExtenders;
  readonly allowedNodes: ReadonlySet<string> | undefined;
  readonly #values = new Map<symbol, unknown>();
  readonly #framework: Framework;
  readonly #newNodeDryRun: NewNodeDryRun | undefined;
  #filterPlugins: readonly SchedulingPlugin[] | undefined;

  constructor(
    snapshot: Snapshot,
    framework: Framework,
    { nominator, callPreemptionExtenders, allowedNodes, newNodeDryRun }: SchedulingCycleStateOptions = {},
  ) {
    this.snapshot = snapshot;
    this.nominator = nominator;
    this.allowedNodes = allowedNodes;
    this.#framework = framework;
    this.#newNodeDryRun = newNodeDryRun;
    if (callPreemptionExtenders !== undefined) this.callPreemptionExtenders = callPreemptionExtenders;
  }
  /** The filter plugins without the skipped ones. Computed on first use: preFilter must have run. */
  get filterPlugins(): readonly SchedulingPlugin[] {
    return (this.#filterPlugins ??= this.#framework.pluginsAt('filter').filter((plugin) => !this.skippedPlugins.has(plugin)));
  }
  dryRun(pod: PodInfo, name: string): NodeDryRun | undefined {
    const node = this.snapshot.get(name);
    return node && this.#newNodeDryRun?.(this.#framework, this, pod, node);
  }
  nominatedNodeName({ key }: PodInfo): string | undefined {
    return this.nominator?.nominatedNodeName(key);
  }
  read<T>(key: symbol): T | undefined {
    return this.#values.get(key) as T | undefined;
  }
  write<T>(key: symbol, value: T): void {
    this.#values.set(key, value);
  }
}
