import { hostname } from 'node:os';
import { WiringError, type Fault, type SourcePosition } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { slotName } from '@oarlock/kernel/slot';
import { explainPath } from '@oarlock/scheduler/explain/explain-path';
import { Network } from '@oarlock/spi/network';
import { Roles } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import { spanIngestHandler, traceQueryHandler } from '@oarlock/tracing/trace-handlers';
import { authorizationPath } from '../paths/authorization-path.ts';
import { backupPath } from '../paths/backup-path.ts';
import { compositionPath } from '../paths/composition-path.ts';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import type { RoleName } from '../cluster-file/cluster-schema.ts';
import { sortFaults } from '../cluster-file/sort-faults.ts';
import { hostPlugin } from '../hosting/host-plugin.ts';
import { pluginHealthPath } from '../paths/plugin-health-path.ts';
import { caPath, joinPath } from '../paths/join-path.ts';
import { issuerPath, jwksPathPlugin } from '../paths/issuer-paths.ts';
import { loadModule, loadPlugin, type LoadResult } from '../plugins/plugin-loader.ts';
import { placementsOf, sections, type NamedPlacement, type Section } from '../cluster-file/sections.ts';
import { clusterFacts, withRoleConfig } from './cluster-facts.ts';
import type { Plan, PlannedPlugin, PlanOptions } from './plan.ts';

/** Modules of the role plugins. */
const rolePackages: Record<RoleName, string> = {
  apiserver: '@oarlock/apiserver/plugin',
  controllers: '@oarlock/controllers/plugin',
  scheduler: '@oarlock/scheduler/plugin',
  kubelet: '@oarlock/kubelet/plugin',
  proxy: '@oarlock/service-proxy/plugin',
};
/** Modules with the built-in plugins of a section. */
const builtinLists: Partial<Record<Section['key'], string>> = {
  controllers: '@oarlock/controllers/builtin',
  scheduling: '@oarlock/scheduler/plugins/registry',
};

const roleOrder: readonly RoleName[] = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'];

/** Paths of the API server that Oarlock adds. */
const apiServerPaths: readonly Plugin[] = [
  traceQueryHandler,
  spanIngestHandler,
  joinPath,
  caPath,
  backupPath,
  issuerPath,
  jwksPathPlugin,
  authorizationPath,
  pluginHealthPath,
  compositionPath,
];

/** Loads the plugins of a cluster file and resolves its facts. Imports modules and changes nothing else. @throws WiringError with all faults */
export async function createPlan(file: ClusterFile, options: PlanOptions = {}): Promise<Plan> {
  const roles = roleOrder.filter((role) => (options.roles ?? file.spec.roles).includes(role));
  const faults: Fault[] = [];
  const plugins: PlannedPlugin[] = [];
  for (const section of sections.filter((candidate) => candidate.roles.some((role) => roles.includes(role)))) {
    const planned = await planSection(file, section, options.knownPlugins);
    plugins.push(...planned.plugins);
    faults.push(...planned.faults);
  }
  plugins.push(...pathPlugins(roles, options.paths), ...(await rolePlugins(roles)));
  const network = roles.includes('kubelet') ? undefined : await networkOfNodes(file, options.knownPlugins);
  const host = await options.allocate?.({ file, roles, serviceCIDR: declaredServiceCIDR(plugins), isShared: usesSharedStorage(plugins) });
  const resolvedOptions = { ...options, ...host };
  const facts = clusterFacts(file, plugins, { ...resolvedOptions, network });
  const nodeName = options.nodeName ?? hostname().toLowerCase();
  const leaderElect = mayHaveReplicas(roles, plugins);
  const configured = plugins.map((planned) =>
    withRoleConfig(planned, { file, facts }, { ...resolvedOptions, nodeName, leaderElect, plugins }),
  );
  if (faults.length > 0) throw new WiringError(sortFaults([...faults, ...remainingFaults(file, configured)]));
  const { mapPlugin } = options;
  return { file, roles, facts, nodeName, plugins: mapPlugin === undefined ? configured : configured.map(mapPlugin) };
}

/**
 * Returns true if other processes may run the same controllers: those of another API server of the cluster if the storage can be shared, and replicas
 * of a process without an API server.
 */
function mayHaveReplicas(roles: readonly RoleName[], plugins: readonly PlannedPlugin[]): boolean {
  return !roles.includes('apiserver') || usesSharedStorage(plugins);
}

/** Returns true if the storage plugin declares that several processes may write the storage at the same time. */
export const usesSharedStorage = (plugins: readonly PlannedPlugin[]): boolean =>
  plugins.some(({ plugin }) => plugin.provides.token === Storage.token && plugin.declares?.['shared'] === true);

function declaredServiceCIDR(plugins: readonly PlannedPlugin[]): string | undefined {
  const declared = plugins.find(({ plugin }) => plugin.provides.token === Network.token)?.plugin.declares?.['serviceCIDR'];
  return typeof declared === 'string' ? declared : undefined;
}

/** Returns the network plugin of a file whose process runs no kubelet: the ranges that the plugin declares are those of the cluster. */
async function networkOfNodes(
  { spec: { network }, file }: ClusterFile,
  knownPlugins?: ReadonlyMap<string, Plugin>,
): Promise<Plugin | undefined> {
  if (network === undefined) return undefined;
  const known = knownPlugins?.get(network.use);
  if (known !== undefined) return known;
  const loaded = await loadPlugin(network.use, file);
  return 'fault' in loaded ? undefined : loaded.plugin;
}

function pathPlugins(roles: readonly RoleName[], more: readonly Plugin[] = []): readonly PlannedPlugin[] {
  if (!roles.includes('apiserver')) return [];
  const paths = [...apiServerPaths, ...(roles.includes('scheduler') ? [explainPath] : []), ...more];
  return paths.map((plugin) => ({ plugin, name: plugin.id, config: {}, path: 'spec', segments: ['spec'] }));
}

async function rolePlugins(roles: readonly RoleName[]): Promise<readonly PlannedPlugin[]> {
  const planned: PlannedPlugin[] = [];
  for (const role of roles) {
    const { default: plugin } = (await loadModule(rolePackages[role])) as { default: Plugin };
    planned.push({ plugin, name: role, config: {}, path: `spec.settings.${role}`, segments: ['spec', 'settings', role] });
  }
  return planned;
}

/**
 * Returns the faults of the plugins that could be loaded when other plugins failed to load. Does not report empty slots, because a failed plugin
 * may fill them.
 */
function remainingFaults(file: ClusterFile, plugins: readonly PlannedPlugin[]): readonly Fault[] {
  const host = new PluginHost();
  for (const planned of plugins) placePlugin(host, file, planned);
  return host.check().filter(({ code }) => code !== 'SlotEmpty');
}

export interface PlannedSection {
  readonly plugins: readonly PlannedPlugin[];
  readonly faults: readonly Fault[];
}

/** Loads the plugins of one section, after its built-in plugins. A placement with the name of a built-in plugin replaces it. */
async function planSection(
  file: ClusterFile,
  section: Section,
  knownPlugins: ReadonlyMap<string, Plugin> = new Map(),
): Promise<PlannedSection> {
  const builtinModule = builtinLists[section.key];
  const builtin = builtinModule === undefined ? [] : ((await loadModule(builtinModule)) as { builtin: readonly Plugin[] }).builtin;
  const { plugins, faults } = await planPlacements(file, { section, placements: placementsOf(file.spec, section), builtin, knownPlugins });
  const replaced = new Set(plugins.map(({ name }) => name));
  const remaining = builtin
    .filter(({ id }) => !replaced.has(id))
    .map(
      (plugin): PlannedPlugin => ({ plugin, name: plugin.id, config: {}, path: `spec.${section.key}`, segments: ['spec', section.key] }),
    );
  return { plugins: [...remaining, ...plugins], faults };
}

interface PlacementSource {
  readonly section: Section;
  readonly placements: readonly NamedPlacement[];
  readonly builtin?: readonly Plugin[];
  readonly knownPlugins?: ReadonlyMap<string, Plugin>;
}

/** Loads the plugins of some placements of one section. */
export async function planPlacements(
  file: ClusterFile,
  { section, placements, builtin = [], knownPlugins = new Map() }: PlacementSource,
): Promise<PlannedSection> {
  const plugins: PlannedPlugin[] = [];
  const faults: Fault[] = [];
  for (const namedPlacement of placements) {
    const loaded = await loadPlacement(file, { namedPlacement, builtin, knownPlugins });
    const planned = planPlacement(file, { section, namedPlacement, loaded });
    if ('faults' in planned) faults.push(...planned.faults);
    else plugins.push(planned);
  }
  return { plugins, faults };
}

async function loadPlacement(
  file: ClusterFile,
  {
    namedPlacement: {
      placement: { use },
      path,
    },
    builtin,
    knownPlugins,
  }: { readonly namedPlacement: NamedPlacement; readonly builtin: readonly Plugin[]; readonly knownPlugins: ReadonlyMap<string, Plugin> },
): Promise<LoadResult> {
  const builtinPlugin = builtin.find(({ id }) => id === use);
  if (builtinPlugin !== undefined) return { plugin: builtinPlugin, module: '' };
  const known = knownPlugins.get(use);
  if (known !== undefined) return { plugin: known, module: use };
  const at = file.locate(path);
  return loadPlugin(use, file.file, { ...(at && { at }), path: path.join('.') });
}

function planPlacement(
  file: ClusterFile,
  {
    section,
    namedPlacement: { placement, path },
    loaded,
  }: { readonly section: Section; readonly namedPlacement: NamedPlacement; readonly loaded: LoadResult },
): PlannedPlugin | { readonly faults: readonly Fault[] } {
  if ('fault' in loaded) return { faults: [loaded.fault] };
  const at = file.locate(path);
  const { plugin, source, module, inputs } = loaded;
  if (plugin.provides.token !== section.slot.token) return { faults: [wrongSlot(plugin, section, { use: placement.use, path, at })] };
  const locate = (key: string) => {
    const position = file.locate([...path, key]) ?? at;
    return { path: [...path, key].join('.'), ...(position && { at: position }) };
  };
  const hosted = hostPlugin(loaded, placement, locate);
  if ('faults' in hosted) return hosted;
  return {
    ...hosted,
    name: placement.name ?? plugin.id,
    config: placement.config,
    path: path.join('.'),
    segments: path,
    origin: { placement, module, ...(source !== undefined && { source }), ...(inputs && { inputs }) },
  };
}

function wrongSlot(
  { provides }: Plugin,
  { key, slot }: Section,
  { use, path, at }: { readonly use: string; readonly path: NamedPlacement['path']; readonly at: SourcePosition | undefined },
): Fault {
  const isOtherVersion = slotName(provides.id) === slotName(slot.id);
  return {
    code: isOtherVersion ? 'VersionMismatch' : 'WrongSlot',
    path: path.join('.'),
    ...(at && { at }),
    message: `${use} provides slot ${provides.id}, but ${key} takes plugins of slot ${slot.id}`,
    remedy: isOtherVersion
      ? 'install a release of the plugin that is made for this version'
      : `list it in the section for ${slotName(provides.id)} plugins`,
  };
}

/** Adds every plugin of a plan to a plugin host, with the positions of the plugin and its config in the cluster file. */
export function placePlugins(host: PluginHost, planned: Pick<Plan, 'file' | 'plugins'>): void {
  for (const each of planned.plugins) placePlugin(host, planned.file, each);
}

function placePlugin(
  host: PluginHost,
  file: ClusterFile,
  { plugin, name, config, path, segments, decorate, decorateLog, limits, makeSwappable }: PlannedPlugin,
): void {
  const at = file.locate(segments);
  const configKey = plugin.provides.token === Roles.token ? [] : ['config'];
  host.add({
    plugin,
    name,
    config,
    path,
    configPath: [path, ...configKey].join('.'),
    ...(at && { at }),
    ...(decorate && { decorate }),
    ...(decorateLog && { decorateLog }),
    ...(limits && { limits }),
    ...(makeSwappable && { makeSwappable }),
    locateConfig: (keys) => file.locate([...segments, ...configKey, ...keys]),
  });
}
