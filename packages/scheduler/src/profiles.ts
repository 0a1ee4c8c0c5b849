import type { SchedulingPlugin } from '@oarlock/spi/scheduling';
import { plainArgs, profilesOf, type Configuration, type PluginSet, type Profile } from './configuration.ts';
import { Framework, points, type Point } from './framework.ts';

/** How pods of one scheduler name are scheduled. */
export interface SchedulingProfile {
  readonly schedulerName: string;
  readonly framework: Framework;
  /** Undefined: by the size of the cluster. */
  readonly percentageOfNodesToScore: number | undefined;
}

const orUndefined = (percentage: number | undefined) => (percentage === 0 ? undefined : percentage);

/** One framework for each profile of a configuration, all over the same plugins. @throws Error that names what is wrong, and where */
export function makeProfiles(config: Configuration, chain: readonly SchedulingPlugin[]): readonly SchedulingProfile[] {
  for (const name of config.disable)
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`there is no scheduling plugin ${name} to disable`);
  for (const name of Object.keys(config.weights))
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`there is no scheduling plugin ${name} to weigh`);
  const made = profilesOf(config).map((profile, index): SchedulingProfile => {
    try {
      return {
        schedulerName: profile.schedulerName,
        framework: frameworkOf(profile, config, chain),
        percentageOfNodesToScore: orUndefined(profile.percentageOfNodesToScore ?? config.percentageOfNodesToScore),
      };
    } catch (cause) {
      const where = config.profiles === undefined ? '' : `profiles[${index}]: `;
      throw new Error(`${where}${(cause as Error).message}`, { cause });
    }
  });
  const sorters = new Set(made.map(({ framework }) => framework.at('queueSort')[0]?.name));
  if (sorters.size > 1) throw new Error(`all profiles share one queue and have to sort it alike, not by ${[...sorters].join(' and ')}`);
  return made;
}

function frameworkOf(
  profile: Profile,
  { disable, weights: common, extenders }: Configuration,
  chain: readonly SchedulingPlugin[],
): Framework {
  const plugins = withArgs(profile, chain).map((plugin) => withIgnored(plugin, profile, extenders));
  const known = new Map(plugins.map((plugin) => [plugin.name, plugin]));
  const check = (set: PluginSet, path: string) => {
    for (const { name } of [...set.enabled, ...set.disabled])
      if (name !== '*' && !known.has(name)) throw new Error(`plugins.${path}: there is no scheduling plugin ${name}`);
    const names = set.enabled.map(({ name }) => name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new Error(`plugins.${path}: ${twice} is enabled twice`);
  };
  const everywhere = profile.plugins.multiPoint ?? { enabled: [], disabled: [] };
  check(everywhere, 'multiPoint');
  const multi = multiPoint(
    [...known.keys()].filter((name) => !disable.includes(name)),
    everywhere,
  );
  const weights: Record<string, number> = { ...common };
  const weigh = (set: PluginSet) => {
    for (const { name, weight } of set.enabled) if (weight) weights[name] = weight;
  };
  weigh(everywhere);
  if (profile.plugins.score !== undefined) weigh(profile.plugins.score);
  const at = Object.fromEntries(
    points.map((point) => {
      const own = profile.plugins[point];
      if (own !== undefined) check(own, point);
      return [point, pointOf(point, multi, own, known)];
    }),
  ) as Record<Point, readonly string[]>;
  return new Framework(plugins, { weights, at });
}

/** Plugins with the arguments that a profile gives them. */
function withArgs({ pluginConfig }: Profile, chain: readonly SchedulingPlugin[]): readonly SchedulingPlugin[] {
  const given = new Map(pluginConfig.map(({ name, args }, index) => [name, { args: plainArgs(args), index }]));
  for (const [name, { index }] of given)
    if (!chain.some((plugin) => plugin.name === name)) throw new Error(`pluginConfig[${index}]: there is no scheduling plugin ${name}`);
  return chain.map((plugin) => {
    const config = given.get(plugin.name);
    if (config === undefined || (plugin.withArgs === undefined && Object.keys(config.args).length === 0)) return plugin;
    if (plugin.withArgs === undefined) throw new Error(`pluginConfig[${config.index}]: ${plugin.name} takes no arguments`);
    try {
      return plugin.withArgs(config.args);
    } catch (cause) {
      throw new Error(`pluginConfig[${config.index}].args: ${(cause as Error).message}`, { cause });
    }
  });
}

const fit = 'NodeResourcesFit';

/** What an extender says the scheduler need not look at. */
function withIgnored(plugin: SchedulingPlugin, { pluginConfig }: Profile, extenders: Configuration['extenders']): SchedulingPlugin {
  const ignored = extenders.flatMap(({ managedResources }) =>
    managedResources.filter((each) => each.ignoredByScheduler).map(({ name }) => name),
  );
  if (plugin.name !== fit || ignored.length === 0 || plugin.withArgs === undefined) return plugin;
  const args = plainArgs(pluginConfig.find(({ name }) => name === fit)?.args ?? {});
  const own = Array.isArray(args['ignoredResources']) ? (args['ignoredResources'] as readonly string[]) : [];
  return plugin.withArgs({ ...args, ignoredResources: [...own, ...ignored] });
}

/** Enabled ones take the place of the default of the same name, or come last. */
function multiPoint(defaults: readonly string[], { enabled, disabled }: PluginSet): readonly string[] {
  const off = new Set(disabled.map(({ name }) => name));
  const left = off.has('*') ? [] : defaults.filter((name) => !off.has(name));
  return [...left, ...enabled.map(({ name }) => name).filter((name) => !left.includes(name))];
}

/** Those named for the point itself that run everywhere come first, in the order given; then the rest of those; then what runs here only. */
function pointOf(
  point: Point,
  multi: readonly string[],
  own: PluginSet | undefined,
  known: ReadonlyMap<string, SchedulingPlugin>,
): readonly string[] {
  const having = multi.filter((name) => known.get(name)?.[point] !== undefined);
  if (own === undefined) return having;
  const off = new Set(own.disabled.map(({ name }) => name));
  const enabled = own.enabled.map(({ name }) => name);
  return [
    ...enabled.filter((name) => having.includes(name)),
    ...(off.has('*') ? [] : having.filter((name) => !off.has(name) && !enabled.includes(name))),
    ...enabled.filter((name) => !having.includes(name)),
  ];
}
