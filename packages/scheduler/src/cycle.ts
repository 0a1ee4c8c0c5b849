import {
  success,
  type CycleState,
  type Eviction,
  type NodeInfo,
  type Outcome,
  type PodInfo,
  type SchedulingPlugin,
  type Snapshot,
  type Trial,
} from '@oarlock/spi/scheduling';
import { passes, type Framework } from './framework.ts';
import { NodeState } from './node-cache.ts';
import type { Nominations } from './nominations.ts';

type ExtendPreemption = (pod: PodInfo, places: readonly Eviction[]) => Promise<readonly Eviction[]>;

/** State of one cycle. */
export class Cycle implements CycleState {
  readonly snapshot: Snapshot;
  readonly skipped = new Set<SchedulingPlugin>();
  readonly nominations: Nominations | undefined;
  readonly extendPreemption?: ExtendPreemption;
  /** The only nodes to look at: a team stays together. */
  readonly only: ReadonlySet<string> | undefined;
  readonly #values = new Map<symbol, unknown>();
  readonly #framework: Framework;
  #filters: readonly SchedulingPlugin[] | undefined;

  constructor(
    snapshot: Snapshot,
    framework: Framework,
    {
      nominations,
      extendPreemption,
      only,
    }: {
      readonly nominations?: Nominations | undefined;
      readonly extendPreemption?: ExtendPreemption | undefined;
      readonly only?: ReadonlySet<string> | undefined;
    } = {},
  ) {
    this.snapshot = snapshot;
    this.nominations = nominations;
    this.only = only;
    this.#framework = framework;
    if (extendPreemption !== undefined) this.extendPreemption = extendPreemption;
  }
  /** Who has a say about each node, once it is known who has nothing to say. */
  get filters(): readonly SchedulingPlugin[] {
    return (this.#filters ??= this.#framework.at('filter').filter((plugin) => !this.skipped.has(plugin)));
  }
  trial(pod: PodInfo, name: string): Trial | undefined {
    const node = this.snapshot.get(name);
    return node && new NodeTrial(this.#framework, this, pod, node);
  }
  nominatedNode({ key }: PodInfo): string | undefined {
    return this.nominations?.nodeOf(key);
  }
  read<T>(key: symbol): T | undefined {
    return this.#values.get(key) as T | undefined;
  }
  write<T>(key: symbol, value: T): void {
    this.#values.set(key, value);
  }
}

export interface Narrowed {
  /** Who refuses the pod wherever it might go. */
  readonly refused?: { readonly plugin: string; readonly outcome: Outcome };
  /** The only nodes to look at, and the plugins that say so. */
  readonly nodes?: ReadonlySet<string>;
  readonly by: readonly string[];
}

/** preFilter of all plugins: who has nothing to say drops out, and the nodes to try are narrowed. */
export function preFilter(framework: Framework, cycle: Cycle, pod: PodInfo): Narrowed {
  let nodes = cycle.only;
  const by: string[] = nodes === undefined ? [] : ['GangScheduling'];
  for (const plugin of framework.at('preFilter')) {
    const outcome = plugin.preFilter?.(cycle, pod) ?? success;
    if (outcome.code === 'skip') cycle.skipped.add(plugin);
    else if (outcome.code !== 'success') return { refused: { plugin: plugin.name, outcome }, by };
    else if ('nodes' in outcome) {
      const narrowed = outcome.nodes as ReadonlySet<string>;
      by.push(plugin.name);
      nodes = nodes === undefined ? narrowed : new Set([...nodes].filter((name) => narrowed.has(name)));
    }
  }
  return nodes === undefined ? { by } : { nodes, by: by.sort() };
}

/** Keeps the state of the plugins that filter in step with a copy of a node. */
class NodeTrial implements Trial {
  readonly node: NodeState;
  readonly #framework: Framework;
  readonly #cycle: Cycle;
  readonly #pod: PodInfo;
  readonly #undo: (() => void)[] = [];

  constructor(framework: Framework, cycle: Cycle, pod: PodInfo, node: NodeInfo) {
    this.node = NodeState.copyOf(node);
    this.#framework = framework;
    this.#cycle = cycle;
    this.#pod = pod;
  }
  add(pod: PodInfo): void {
    this.#put(pod);
    this.#undo.push(() => this.#take(pod));
  }
  remove(pod: PodInfo): void {
    this.#take(pod);
    this.#undo.push(() => this.#put(pod));
  }
  refusal(): Outcome | undefined {
    return refusal(this.#framework, this.#cycle, this.#pod, this.node)?.outcome;
  }
  end(): void {
    for (let undo = this.#undo.pop(); undo !== undefined; undo = this.#undo.pop()) undo();
  }
  #put(pod: PodInfo): void {
    this.node.add(pod);
    for (const plugin of this.#framework.at('preFilter'))
      if (!this.#cycle.skipped.has(plugin)) plugin.addPod?.(this.#cycle, this.#pod, pod, this.node);
  }
  #take(pod: PodInfo): void {
    this.node.remove(pod.key);
    for (const plugin of this.#framework.at('preFilter'))
      if (!this.#cycle.skipped.has(plugin)) plugin.removePod?.(this.#cycle, this.#pod, pod, this.node);
  }
}

export interface Refusal {
  readonly plugin: string;
  readonly outcome: Outcome;
}

/**
 * The first plugin that refuses the node, or undefined when all let it pass. Where room was made for pods that matter as much, the
 * pod must fit beside them; and without them too, for they may never come.
 */
export function refusal(framework: Framework, cycle: Cycle, pod: PodInfo, node: NodeInfo): Refusal | undefined {
  const others = cycle.nominations?.ahead(node.name, pod);
  if (others !== undefined) {
    const trial = new NodeTrial(framework, cycle, pod, node);
    for (const other of others) trial.add(other);
    const found = refusalAt(cycle, pod, trial.node);
    trial.end();
    if (found !== undefined) return found;
  }
  return refusalAt(cycle, pod, node);
}

function refusalAt(cycle: Cycle, pod: PodInfo, node: NodeInfo): Refusal | undefined {
  for (const plugin of cycle.filters) {
    const outcome = plugin.filter?.(cycle, pod, node) ?? success;
    if (outcome !== success && !passes(outcome)) return { plugin: plugin.name, outcome };
  }
  return undefined;
}
