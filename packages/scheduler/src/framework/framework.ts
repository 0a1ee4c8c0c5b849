import type { Pod } from '@oarlock/api/types/core-v1';
import { success, type ClusterEventWithHint, type PodGroupInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { isSuccess, type PluginStatus } from './plugin-status.ts';

export const extensionPoints = [
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
export type ExtensionPoint = (typeof extensionPoints)[number];

export interface FrameworkOptions {
  readonly weights?: Readonly<Record<string, number>>;
  /** The plugin names of each extension point, in order. At an absent extension point, all plugins that implement it run. */
  readonly pluginNames?: Partial<Readonly<Record<ExtensionPoint, readonly string[]>>>;
}

/** The plugins of one profile by extension point. */
export class Framework {
  readonly plugins: readonly SchedulingPlugin[];
  readonly less: NonNullable<SchedulingPlugin['queueSort']>;
  readonly eventsToRegister: ReadonlyMap<string, readonly ClusterEventWithHint[]>;
  readonly #weights: Readonly<Record<string, number>>;
  readonly #byExtensionPoint: ReadonlyMap<ExtensionPoint, readonly SchedulingPlugin[]>;
  readonly #podGroupPlugins: readonly SchedulingPlugin[];

  /** @throws Error if a plugin name is duplicate or unknown, if not exactly one plugin is a QueueSort plugin, or if there is no bind plugin */
  constructor(plugins: readonly SchedulingPlugin[], { weights = {}, pluginNames = {} }: FrameworkOptions = {}) {
    const names = plugins.map(({ name }) => name);
    const duplicate = names.find((name, index) => names.indexOf(name) !== index);
    if (duplicate !== undefined) throw new Error(`there are two scheduling plugins named ${duplicate}`);
    for (const name of Object.keys(weights)) if (!names.includes(name)) throw new Error(`there is no scheduling plugin ${name} to weigh`);
    this.#byExtensionPoint = new Map(extensionPoints.map((point) => [point, selectPlugins(plugins, point, pluginNames[point])]));
    const sorters = this.pluginsAt('queueSort');
    const [sorter] = sorters;
    if (sorters.length !== 1 || sorter?.queueSort === undefined)
      throw new Error(`exactly one scheduling plugin must sort the queue, found: ${sorters.map(({ name }) => name).join(', ') || 'none'}`);
    if (this.pluginsAt('bind').length === 0) throw new Error('at least one scheduling plugin must bind pods');
    this.plugins = plugins.filter(
      (plugin) => plugin.podGroup !== undefined || [...this.#byExtensionPoint.values()].some((enabled) => enabled.includes(plugin)),
    );
    this.less = sorter.queueSort.bind(sorter);
    this.eventsToRegister = new Map(
      plugins.flatMap(({ name, eventsToRegister }) => (eventsToRegister ? [[name, eventsToRegister] as const] : [])),
    );
    this.#weights = weights;
    this.#podGroupPlugins = this.plugins.filter(({ podGroup }) => podGroup !== undefined);
  }

  pluginsAt(point: ExtensionPoint): readonly SchedulingPlugin[] {
    return this.#byExtensionPoint.get(point) ?? [];
  }
  weightOf(plugin: SchedulingPlugin): number {
    return this.#weights[plugin.name] ?? plugin.weight ?? 1;
  }

  /** Returns the status of the first PreEnqueue plugin that gates the pod, or undefined if it may enter the active queue. */
  preEnqueue(pod: Pod): PluginStatus | undefined {
    for (const plugin of this.pluginsAt('preEnqueue')) {
      const status = plugin.preEnqueue?.(pod) ?? success;
      if (!isSuccess(status)) return { ...status, plugin: plugin.name };
    }
    return undefined;
  }

  podGroupOf(pod: Pod): PodGroupInfo | undefined {
    for (const plugin of this.#podGroupPlugins) {
      const podGroup = plugin.podGroup?.(pod);
      if (podGroup !== undefined) return podGroup;
    }
    return undefined;
  }
}

function selectPlugins(
  plugins: readonly SchedulingPlugin[],
  point: ExtensionPoint,
  names: readonly string[] | undefined,
): readonly SchedulingPlugin[] {
  if (names === undefined) return plugins.filter((plugin) => plugin[point] !== undefined);
  return names.map((name) => {
    const plugin = plugins.find((each) => each.name === name);
    if (plugin?.[point] === undefined) throw new Error(`the scheduling plugin ${name} has no ${point}`);
    return plugin;
  });
}
