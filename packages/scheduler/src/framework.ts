import type { Pod } from '@oarlock/api/types/core-v1';
import {
  success,
  type BindContext,
  type NodeInfo,
  type Outcome,
  type PodInfo,
  type PodTeam,
  type RequeueOn,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import type { Cycle } from './cycle.ts';

export const points = [
  'preEnqueue',
  'queueSort',
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

export interface FrameworkOptions {
  readonly weights?: Readonly<Record<string, number>>;
  /** Which plugins take part at an extension point, in their order, where that is not simply all that have it. */
  readonly at?: Partial<Readonly<Record<Point, readonly string[]>>>;
}

export const passes = ({ code }: Outcome): boolean => code === 'success' || code === 'skip';
export type Refused = Outcome & { readonly plugin?: string };

/** What a plugin says against a pod, with its name; of a fault also where it happened. */
const saidBy = (plugin: string, point: string, outcome: Outcome): Refused =>
  outcome.code === 'error'
    ? { code: 'error', reasons: [`running ${point} plugin ${JSON.stringify(plugin)}: ${outcome.reasons.join(', ')}`], plugin }
    : { ...outcome, plugin };

/** The chain's plugins by extension point, worked out once. */
export class Framework {
  readonly plugins: readonly SchedulingPlugin[];
  readonly less: NonNullable<SchedulingPlugin['queueSort']>;
  readonly requeueOn: ReadonlyMap<string, readonly RequeueOn[]>;
  readonly #weights: Readonly<Record<string, number>>;
  readonly #by: ReadonlyMap<Point, readonly SchedulingPlugin[]>;
  readonly #teams: readonly SchedulingPlugin[];

  /** @throws Error when not exactly one plugin sorts the queue, none binds, a name is there twice, or a plugin is named that is not there */
  constructor(plugins: readonly SchedulingPlugin[], { weights = {}, at = {} }: FrameworkOptions = {}) {
    const names = plugins.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new Error(`there are two scheduling plugins named ${twice}`);
    for (const name of Object.keys(weights)) if (!names.includes(name)) throw new Error(`there is no scheduling plugin ${name} to weigh`);
    this.#by = new Map(points.map((point) => [point, namedAt(plugins, point, at[point])]));
    const sorters = this.at('queueSort');
    const [sorter] = sorters;
    if (sorters.length !== 1 || sorter?.queueSort === undefined)
      throw new Error(`exactly one scheduling plugin sorts the queue; ${sorters.map(({ name }) => name).join(', ') || 'none'} would`);
    if (this.at('bind').length === 0) throw new Error('at least one scheduling plugin has to bind pods');
    this.plugins = plugins.filter((plugin) => [...this.#by.values()].some((some) => some.includes(plugin)) || plugin.team !== undefined);
    this.less = sorter.queueSort.bind(sorter);
    this.requeueOn = new Map(plugins.flatMap(({ name, requeueOn }) => (requeueOn ? [[name, requeueOn] as const] : [])));
    this.#weights = weights;
    this.#teams = this.plugins.filter(({ team }) => team !== undefined);
  }

  at(point: Point): readonly SchedulingPlugin[] {
    return this.#by.get(point) ?? [];
  }
  weightOf(plugin: SchedulingPlugin): number {
    return this.#weights[plugin.name] ?? plugin.weight ?? 1;
  }

  /** Who keeps a pod from being tried. */
  preEnqueue(pod: Pod): Refused | undefined {
    for (const plugin of this.at('preEnqueue')) {
      const outcome = plugin.preEnqueue?.(pod) ?? success;
      if (!passes(outcome)) return { ...outcome, plugin: plugin.name };
    }
    return undefined;
  }

  teamOf(pod: Pod): PodTeam | undefined {
    for (const plugin of this.#teams) {
      const team = plugin.team?.(pod);
      if (team !== undefined) return team;
    }
    return undefined;
  }
}

function namedAt(plugins: readonly SchedulingPlugin[], point: Point, names: readonly string[] | undefined): readonly SchedulingPlugin[] {
  if (names === undefined) return plugins.filter((plugin) => plugin[point] !== undefined);
  return names.map((name) => {
    const plugin = plugins.find((each) => each.name === name);
    if (plugin?.[point] === undefined) throw new Error(`the scheduling plugin ${name} has no ${point}`);
    return plugin;
  });
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
export async function reserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: string): Promise<Refused> {
  for (const plugin of framework.at('reserve')) {
    const outcome = (await plugin.reserve?.(cycle, pod, node)) ?? success;
    if (!passes(outcome)) {
      unreserve(framework, cycle, pod, node);
      return saidBy(plugin.name, 'Reserve', outcome);
    }
  }
  return success;
}
export function unreserve(framework: Framework, cycle: Cycle, pod: PodInfo, node: string): void {
  for (const plugin of framework.at('reserve').toReversed()) plugin.unreserve?.(cycle, pod, node);
}

/** The plugins that hold the pod, with how long at most; or who refuses it. */
export function permit(framework: Framework, cycle: Cycle, pod: PodInfo, node: string): Refused | ReadonlyMap<string, number> | undefined {
  let holds: Map<string, number> | undefined;
  for (const plugin of framework.at('permit')) {
    const outcome = plugin.permit?.(cycle, pod, node) ?? success;
    if (outcome.code === 'wait') (holds ??= new Map()).set(plugin.name, outcome.timeoutMs);
    else if (!passes(outcome)) return saidBy(plugin.name, 'Permit', outcome);
  }
  return holds;
}

/** Whether a plugin will prepare the binding, which may take long. */
export const willPreBind = (framework: Framework, cycle: Cycle, pod: PodInfo, node: string): boolean =>
  framework.at('preBind').some((plugin) => plugin.preBindPreFlight?.(cycle, pod, node).code !== 'skip');

/** Who refuses to prepare the binding. */
export async function preBind(
  framework: Framework,
  cycle: Cycle,
  pod: PodInfo,
  node: string,
  context: BindContext,
): Promise<Refused | undefined> {
  for (const plugin of framework.at('preBind')) {
    const outcome = (await plugin.preBind?.(cycle, pod, node, context)) ?? success;
    if (!passes(outcome)) return saidBy(plugin.name, 'PreBind', outcome);
  }
  return undefined;
}

/** The first binder that does not pass on. */
export async function bind(framework: Framework, cycle: Cycle, pod: PodInfo, node: string, context: BindContext): Promise<Refused> {
  for (const plugin of framework.at('bind')) {
    const outcome = (await plugin.bind?.(cycle, pod, node, context)) ?? success;
    if (outcome.code !== 'skip') return saidBy(plugin.name, 'Bind', outcome);
  }
  return { code: 'error', reasons: ['no plugin bound the pod'] };
}
