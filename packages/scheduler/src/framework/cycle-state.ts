import type { CycleState, NodeDryRun, NodeInfo, PodInfo, PreemptionCandidate, SchedulingPlugin, Snapshot } from '@oarlock/spi/scheduling';
import type { Nominator } from '../queue/nominator.ts';
import { noObserver, type ExtensionPointObserver } from './extension-point-observer.ts';
import type { Framework } from './framework.ts';

export type CallPreemptionExtenders = (pod: PodInfo, candidates: readonly PreemptionCandidate[]) => Promise<readonly PreemptionCandidate[]>;

/** Copies a node to evaluate the pod of a cycle on it with other pods. */
export type NewNodeDryRun = (framework: Framework, state: SchedulingCycleState, pod: PodInfo, node: NodeInfo) => NodeDryRun;

interface SchedulingCycleStateOptions {
  readonly nominator?: Nominator | undefined;
  /** Passes preemption candidates through the extenders; undefined if no extender takes part in preemption. */
  readonly callPreemptionExtenders?: CallPreemptionExtenders | undefined;
  /** Names of the nodes to evaluate: one topology domain for a pod group. undefined: all nodes. */
  readonly allowedNodes?: ReadonlySet<string> | undefined;
  /** Creates dry runs of preemption; undefined if the cycle does not run PostFilter plugins. */
  readonly newNodeDryRun?: NewNodeDryRun | undefined;
  /** Receives the durations of the extension points; absent: they are not measured. */
  readonly observer?: ExtensionPointObserver | undefined;
}

/** The state of one scheduling cycle. */
export class SchedulingCycleState implements CycleState {
  readonly snapshot: Snapshot;
  /** Plugins whose preFilter returned `skip`, so that their filter does not run. */
  readonly skippedPlugins = new Set<SchedulingPlugin>();
  readonly nominator: Nominator | undefined;
  readonly callPreemptionExtenders?: CallPreemptionExtenders;
  readonly allowedNodes: ReadonlySet<string> | undefined;
  readonly observer: ExtensionPointObserver;
  readonly #values = new Map<symbol, unknown>();
  readonly #framework: Framework;
  readonly #newNodeDryRun: NewNodeDryRun | undefined;
  #filterPlugins: readonly SchedulingPlugin[] | undefined;

  constructor(
    snapshot: Snapshot,
    framework: Framework,
    { nominator, callPreemptionExtenders, allowedNodes, newNodeDryRun, observer = noObserver }: SchedulingCycleStateOptions = {},
  ) {
    this.snapshot = snapshot;
    this.nominator = nominator;
    this.allowedNodes = allowedNodes;
    this.observer = observer;
    this.#framework = framework;
    this.#newNodeDryRun = newNodeDryRun;
    if (callPreemptionExtenders !== undefined) this.callPreemptionExtenders = callPreemptionExtenders;
  }
  /** The filter plugins that preFilter did not skip. Computed at the first use, so preFilter must run before. */
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
