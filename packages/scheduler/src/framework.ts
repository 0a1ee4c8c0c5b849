import type { Pod } from '@oarlock/api/types/core-v1';
import {
  success,
  type BindContext,
  type CycleState,
  type NodeInfo,
  type Outcome,
  type PodInfo,
  type Refusals,
  type RequeueOn,
  type SchedulingPlugin,
  type Snapshot,
  type Trial,
} from '@oarlock/spi/scheduling';
import { NodeState } from './node-cache.ts';
import type { Nominations } from './nominations.ts';

/** The chain's plugins by extension point, worked out once. */
export class Framework {
  readonly plugins: readonly SchedulingPlugin[];
  readonly less: NonNullable<SchedulingPlugin['queueSort']>;
  readonly requeueOn: ReadonlyMap<string, readonly RequeueOn[]>;
  readonly #weights: Readonly<Record<string, number>>;
  readonly #by: ReadonlyMap<Point, readonly SchedulingPlugin[]>;

  /** @throws Error when not exactly one plugin sorts the queue, or a name is there twice */
  constructor(plugins: readonly SchedulingPlugin[], weights: Readonly<Record<string, number>> = {}) {
    const names = plugins.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new Error(`there are two scheduling plugins named ${twice}`);
    const sorters = plugins.filter((plugin) => plugin.queueSort !== undefined);
    const [sorter] = sorters;
    if (sorters.length !== 1 || sorter?.queueSort === undefined)
      throw new Error(`exactly one scheduling plugin sorts the queue; ${sorters.map(({ name }) => name).join(', ') || 'none'} would`);
    for (const name of Object.keys(weights)) if (!names.includes(name)) throw new Error(`there is no scheduling plugin ${name} to weigh`);
    this.plugins = plugins;
    this.less = sorter.queueSort.bind(sorter);
    this.requeueOn = new Map(plugins.flatMap(({ name, requeueOn }) => (requeueOn ? [[name, requeueOn] as const] : [])));
    this.#weights = weights;
    this.#by = new Map(points.map((point) => [point, plugins.filter((plugin) => plugin[point] !== undefined)]));
  }

  at(point: Point): readonly SchedulingPlugin[] {
    return this.#by.get(point) ?? [];
  }
  weightOf(plugin: SchedulingPlugin): number {
    return this.#weights[plugin.name] ?? plugin.weight ?? 1;
  }

  preEnqueue(pod: Pod): Outcome {
    for (const plugin of this.at('preEnqueue')) {
      const outcome = plugin.preEnqueue?.(pod) ?? success;
      if (outcome.code !== 'success' && outcome.code !== 'skip') return outcome;
    }
    return success;
  }
}

const points = [
  'preEnqueue',
  'preFilter',
  'filter',
  'postFilter',
  'preScore',
  'score',
  'reserve',
  'permit',
  'preBind',
  'bind',
  'postBind',
] as const;
export type Point = (typeof points)[number];

/** State of one cycle. */
export class Cycle implements CycleState {
  readonly snapshot: Snapshot;
  readonly #values = new Map<symbol, unknown>();
  readonly skipped = new Set<SchedulingPlugin>();
  readonly nominations: Nominations | undefined;
  readonly #framework: Framework;
  constructor(snapshot: Snapshot, framework: Framework, nominations?: Nominations) {
    this.snapshot = snapshot;
    this.nominations = nominations;
    this.#framework = framework;
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

export type Found = {
  readonly fits: readonly NodeInfo[];
  readonly refusals: Refusals;
  readonly all: Outcome | undefined;
  readonly by: string | undefined;
};

/** preFilter of all plugins: who has nothing to say drops out, and the nodes to try are narrowed. */
export function preFilter(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
): { readonly refused?: { readonly plugin: string; readonly outcome: Outcome }; readonly nodes?: ReadonlySet<string> } {
  let nodes: ReadonlySet<string> | undefined;
  for (const plugin of framework.at('preFilter')) {
    const outcome = plugin.preFilter?.(cycle, pod) ?? success;
    if (outcome.code === 'skip') cycle.skipped.add(plugin);
    else if (outcome.code !== 'success') return { refused: { plugin: plugin.name, outcome } };
    else if ('nodes' in outcome) {
      const narrowed = outcome.nodes as ReadonlySet<string>;
      nodes = nodes === undefined ? narrowed : new Set([...nodes].filter((name) => narrowed.has(name)));
    }
  }
  return nodes === undefined ? {} : { nodes };
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

/**
 * The first plugin that refuses the node, or undefined when all let it pass. Where room was made for pods that matter as much, the
 * pod must fit beside them; and without them too, for they may never come.
 */
export function refusal(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  node: NodeInfo,
): { readonly plugin: string; readonly outcome: Outcome } | undefined {
  const others = cycle.nominations?.ahead(node.name, pod);
  if (others !== undefined) {
    const trial = new NodeTrial(framework, cycle, pod, node);
    for (const other of others) trial.add(other);
    const found = refusalAt(framework, cycle, pod, trial.node);
    trial.end();
    if (found !== undefined) return found;
  }
  return refusalAt(framework, cycle, pod, node);
}

function refusalAt(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  node: NodeInfo,
): { readonly plugin: string; readonly outcome: Outcome } | undefined {
  for (const plugin of framework.at('filter')) {
    if (cycle.skipped.has(plugin)) continue;
    const outcome = plugin.filter?.(cycle, pod, node) ?? success;
    if (outcome.code !== 'success' && outcome.code !== 'skip') return { plugin: plugin.name, outcome };
  }
  return undefined;
}

/** Weighted sums in the order of `nodes`. With `parts`, also each plugin's share. */
export function score(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  nodes: readonly NodeInfo[],
  parts?: Map<string, Float64Array>,
): Float64Array {
  const left = new Set<SchedulingPlugin>();
  for (const plugin of framework.at('preScore')) if (plugin.preScore?.(cycle, pod, nodes).code === 'skip') left.add(plugin);
  const total = new Float64Array(nodes.length);
  const own = new Float64Array(nodes.length);
  for (const plugin of framework.at('score')) {
    if (left.has(plugin) || plugin.score === undefined) continue;
    for (let index = 0; index < nodes.length; index++) {
      const node = nodes[index];
      own[index] = node === undefined ? 0 : plugin.score(cycle, pod, node);
    }
    plugin.normalize?.(cycle, pod, nodes, own);
    const weight = framework.weightOf(plugin);
    for (let index = 0; index < own.length; index++) total[index] = (total[index] ?? 0) + weight * (own[index] ?? 0);
    parts?.set(
      plugin.name,
      own.map((value) => value * weight),
    );
  }
  return total;
}

/** Runs reserve in order; undoes all in reverse when one refuses. */
export async function reserve(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  node: string,
): Promise<Outcome & { readonly plugin?: string }> {
  for (const plugin of framework.at('reserve')) {
    const outcome = (await plugin.reserve?.(cycle, pod, node)) ?? success;
    if (outcome.code !== 'success' && outcome.code !== 'skip') {
      unreserve(framework, cycle, pod, node);
      return { ...outcome, plugin: plugin.name };
    }
  }
  return success;
}
export function unreserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: string): void {
  for (const plugin of framework.at('reserve').toReversed()) plugin.unreserve?.(cycle, pod, node);
}

/** preBind of all, then the first binder that does not pass on. */
export async function bind(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  node: string,
  context: BindContext,
): Promise<Outcome & { readonly plugin?: string }> {
  for (const plugin of framework.at('preBind')) {
    const outcome = (await plugin.preBind?.(cycle, pod, node, context)) ?? success;
    if (outcome.code !== 'success' && outcome.code !== 'skip') return { ...outcome, plugin: plugin.name };
  }
  for (const plugin of framework.at('bind')) {
    const outcome = (await plugin.bind?.(cycle, pod, node, context)) ?? success;
    if (outcome.code !== 'skip') return { ...outcome, plugin: plugin.name };
  }
  return { code: 'unschedulable', reasons: ['no plugin bound the pod'] };
}
