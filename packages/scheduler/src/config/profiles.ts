import type { SchedulingPlugin } from '@oarlock/spi/scheduling';
import { plainArgs, profilesOf, type Configuration, type PluginSet, type Profile } from './configuration.ts';
import { Framework, extensionPoints, type ExtensionPoint } from '../framework/framework.ts';

/** The profile of the pods with one `spec.schedulerName`. */
export interface SchedulingProfile {
  readonly schedulerName: string;
  readonly framework: Framework;
  /** As in KubeSchedulerConfiguration; undefined if the percentage depends on the size of the cluster. */
  readonly percentageOfNodesToScore: number | undefined;
}

const adaptiveIfZero = (percentage: number | undefined) => (percentage === 0 ? undefined : percentage);

/**
 * Returns a framework for each profile. All profiles share the plugin instances and their caches.
 * @throws Error with the path and the reason if the configuration is invalid
 */
export function makeProfiles(config: Configuration, chain: readonly SchedulingPlugin[]): readonly SchedulingProfile[] {
  for (const name of config.disable)
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`there is no scheduling plugin ${name} to disable`);
  for (const name of Object.keys(config.weights))
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`there is no scheduling plugin ${name} to weigh`);
  const created = profilesOf(config).map((profile, index): SchedulingProfile => {
    try {
      return {
        schedulerName: profile.schedulerName,
        framework: frameworkOf(profile, config, chain),
        percentageOfNodesToScore: adaptiveIfZero(profile.percentageOfNodesToScore ?? config.percentageOfNodesToScore),
      };
    } catch (cause) {
      const where = config.profiles === undefined ? '' : `profiles[${index}]: `;
      throw new Error(`${where}${(cause as Error).message}`, { cause });
    }
  });
  const sorters = new Set(created.map(({ framework }) => framework.pluginsAt('queueSort')[0]?.name));
  if (sorters.size > 1)
    throw new Error(`all profiles share one queue and must use the same queueSort plugin, found: ${[...sorters].join(', ')}`);
  return created;
}

function frameworkOf(
  profile: Profile,
  { disable, weights: defaultWeights, extenders }: Configuration,
  chain: readonly SchedulingPlugin[],
): Framework {
  const plugins = withArgs(profile, chain).map((plugin) => withExtenderIgnoredResources(plugin, profile, extenders));
  const known = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const check = (set: PluginSet, path: string) => {
    for (const { name } of [...set.enabled, ...set.disabled])
      if (name !== '*' && !known.has(name)) throw new Error(`plugins.${path}: there is no scheduling plugin ${name}`);
    const names = set.enabled.map(({ name }) => name);
    const duplicate = names.find((name, index) => names.indexOf(name) !== index);
    if (duplicate !== undefined) throw new Error(`plugins.${path}: ${duplicate} is enabled twice`);
  };
  const multiPoint = profile.plugins.multiPoint ?? { enabled: [], disabled: [] };
  check(multiPoint, 'multiPoint');
  const multiPointNames = expandMultiPoint(
    [...known.keys()].filter((name) => !disable.includes(name)),
    multiPoint,
  );
  const weights: Record<string, number> = { ...defaultWeights };
  const addWeights = (set: PluginSet) => {
    for (const { name, weight } of set.enabled) if (weight) weights[name] = weight;
  };
  addWeights(multiPoint);
  if (profile.plugins.score !== undefined) addWeights(profile.plugins.score);
  const pluginNames = Object.fromEntries(
    extensionPoints.map((point) => {
      const own = profile.plugins[point];
      if (own !== undefined) check(own, point);
      return [point, pluginsForPoint(point, { multiPointNames, own, known })];
    }),
  ) as Record<ExtensionPoint, readonly string[]>;
  return new Framework(plugins, { weights, pluginNames });
}

/** Returns the plugins, configured with the arguments of the profile. */
function withArgs({ pluginConfig }: Profile, chain: readonly SchedulingPlugin[]): readonly SchedulingPlugin[] {
  const argsByName = new Map(pluginConfig.map(({ name, args }, index) => [name, { args: plainArgs(args), index }]));
  for (const [name, { index }] of argsByName)
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`pluginConfig[${index}]: there is no scheduling plugin ${name}`);
  return chain.map((plugin) => {
    const config = argsByName.get(plugin.name);
    if (config === undefined || (plugin.withArgs === undefined && Object.keys(config.args).length === 0)) return plugin;
    if (plugin.withArgs === undefined) throw new Error(`pluginConfig[${config.index}]: ${plugin.name} takes no arguments`);
    try {
      return plugin.withArgs(config.args);
    } catch (cause) {
      throw new Error(`pluginConfig[${config.index}].args: ${(cause as Error).message}`, { cause });
    }
  });
}

const nodeResourcesFitName = 'NodeResourcesFit';

/** Makes NodeResourcesFit ignore the resources that an extender manages with `ignoredByScheduler`. */
function withExtenderIgnoredResources(
  plugin: SchedulingPlugin,
  { pluginConfig }: Profile,
  extenders: Configuration['extenders'],
): SchedulingPlugin {
  const ignored = extenders.flatMap(({ managedResources }) =>
    managedResources.filter((each) => each.ignoredByScheduler).map(({ name }) => name),
  );
  if (plugin.name !== nodeResourcesFitName || ignored.length === 0 || plugin.withArgs === undefined) return plugin;
  const args = plainArgs(pluginConfig.find(({ name }) => name === nodeResourcesFitName)?.args ?? {});
  const own = Array.isArray(args['ignoredResources']) ? (args['ignoredResources'] as readonly string[]) : [];
  return plugin.withArgs({ ...args, ignoredResources: [...own, ...ignored] });
}

/** Returns the plugins of multiPoint: the defaults that are not disabled, then the enabled plugins that are not among them. */
function expandMultiPoint(defaults: readonly string[], { enabled, disabled }: PluginSet): readonly string[] {
  const off = new Set(disabled.map(({ name }) => name));
  const left = off.has('*') ? [] : defaults.filter((name) => !off.has(name));
  return [...left, ...enabled.map(({ name }) => name).filter((name) => !left.includes(name))];
}

/**
 * Returns the plugins of an extension point, in upstream's order: the plugins of multiPoint that the point enables too, in the point's
 * order; then the other plugins of multiPoint; then the plugins that only the point enables.
 */
function pluginsForPoint(
  point: ExtensionPoint,
  {
    multiPointNames,
    own,
    known,
  }: {
    readonly multiPointNames: readonly string[];
    readonly own: PluginSet | undefined;
    readonly known: ReadonlyMap<string, SchedulingPlugin>;
  },
): readonly string[] {
  const implementing = multiPointNames.filter((name) => known.get(name)?.[point] !== undefined);
  if (own === undefined) return implementing;
  const off = new Set(own.disabled.map(({ name }) => name));
  const enabled = own.enabled.map(({ name }) => name);
  return [
    ...enabled.filter((name) => implementing.includes(name)),
    ...(off.has('*') ? [] : implementing.filter((name) => !off.has(name) && !enabled.includes(name))),
    ...enabled.filter((name) => !implementing.includes(name)),
  ];
}
