import { hostname } from 'node:os';
import { WiringError, type Fault } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Placement } from '@oarlock/kernel/placement';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { slotName } from '@oarlock/kernel/slot';
import { explainPath } from '@oarlock/scheduler/explain-path';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { Runtime } from '@oarlock/spi/runtime';
import { spanIntake, traceQuery } from '@oarlock/tracing/trace-paths';
import { authorizationPath } from './authorization-path.ts';
import { backupPath } from './backup-path.ts';
import type { ClusterFile } from './cluster-file.ts';
import type { PlacementSpec, RoleName } from './cluster-schema.ts';
import { inOrder } from './fault-order.ts';
import { hosted } from './hosting/hosting.ts';
import { caPath, joinPath, type JoinResponse } from './join-path.ts';
import { issuerPath, jwksPathPlugin } from './issuer-paths.ts';
import { load, loadPlugin, type Loaded } from './plugin-loader.ts';
import { placementsOf, sections, type Section } from './sections.ts';
import { factsOf, withRoleConfig } from './settled.ts';

/** What the command line says of a plan, over its file. */
export interface PlanOptions {
  readonly roles?: readonly RoleName[];
  readonly port?: number;
  readonly nodeName?: string;
  /** A node that joined: the facts it was told, and the files of its serving certificate. */
  readonly joined?: Joined;
  /** The API server of another process. */
  readonly server?: string;
  /** Changes how a plugin is placed: what develops with a cluster looks on, and replaces plugins. */
  readonly arrange?: (planned: Planned) => Planned;
  /** Plugins that are there already, by what `use` calls them: those of a test. */
  readonly known?: ReadonlyMap<string, Plugin>;
}

export interface Joined {
  readonly cluster: JoinResponse['cluster'];
  readonly server: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  /** The files are renewed, with the client certificate of this kubeconfig. Absent: somebody else does that. */
  readonly kubeconfigFile?: string;
}

export interface Plan {
  readonly file: ClusterFile;
  readonly roles: readonly RoleName[];
  readonly facts: ClusterFacts;
  readonly nodeName: string;
  readonly plugins: readonly Planned[];
}
export interface Planned extends Pick<Placement, 'wrap' | 'front'> {
  readonly plugin: Plugin;
  readonly name: string;
  readonly config: unknown;
  readonly path: string;
  readonly segments: readonly (string | number)[];
  /** Where it was loaded from, where a file or a package was: what is needed to load it again. */
  readonly from?: Origin;
  /** What was done to the plugin after it was loaded, for another version of it. */
  readonly adapt?: (plugin: Plugin) => Plugin;
}
export interface Origin {
  readonly placement: PlacementSpec;
  /** The file that its author wrote, when it is one. */
  readonly source?: string;
  readonly inputs?: readonly string[];
}

/** Where a role's plugin is, and the lists of plugins that a role brings along for its own chain. */
const rolePackages: Record<RoleName, string> = {
  apiserver: '@oarlock/apiserver/plugin',
  controllers: '@oarlock/controllers/plugin',
  scheduler: '@oarlock/scheduler/plugin',
  kubelet: '@oarlock/kubelet/plugin',
  proxy: '@oarlock/service-proxy/plugin',
};
const builtinLists: Partial<Record<Section['key'], string>> = {
  controllers: '@oarlock/controllers/builtin',
  scheduling: '@oarlock/scheduler/builtin',
};

const orderOfRoles: readonly RoleName[] = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'];

/** Loads what a cluster file names and settles its facts. Reads plugin modules, changes nothing. @throws WiringError with all faults */
export async function plan(file: ClusterFile, options: PlanOptions = {}): Promise<Plan> {
  const roles = orderOfRoles.filter((role) => (options.roles ?? file.spec.roles).includes(role));
  const faults: Fault[] = [];
  const plugins: Planned[] = [];
  for (const section of sections.filter((candidate) => candidate.roles.some((role) => roles.includes(role)))) {
    plugins.push(...(await planSection(file, section, faults, options.known)));
  }
  // our own paths of the API server
  if (roles.includes('apiserver')) {
    for (const plugin of [traceQuery, spanIntake, joinPath, caPath, backupPath, issuerPath, jwksPathPlugin, authorizationPath])
      plugins.push({ plugin, name: plugin.id, config: {}, path: 'spec', segments: ['spec'] });
  }
  if (roles.includes('apiserver') && roles.includes('scheduler'))
    plugins.push({ plugin: explainPath, name: explainPath.id, config: {}, path: 'spec', segments: ['spec'] });
  for (const role of roles) {
    const { default: plugin } = (await load(rolePackages[role])) as { default: Plugin };
    plugins.push({ plugin, name: role, config: {}, path: `spec.settings.${role}`, segments: ['spec', 'settings', role] });
  }
  const facts = factsOf(file, plugins, options);
  const nodeName = options.nodeName ?? hostname().toLowerCase();
  const configured = plugins.map((planned) =>
    withRoleConfig(planned, file, facts, { ...options, nodeName, remote: !roles.includes('apiserver') }),
  );
  if (faults.length > 0) throw new WiringError(inOrder([...faults, ...faultsOfTheRest(file, configured)]));
  const { arrange } = options;
  return { file, roles, facts, nodeName, plugins: arrange === undefined ? configured : configured.map(arrange) };
}

/** A role without which nothing of its work can be done: a slot that may hold many may hold none, too. */
export function missingRuntime({ file, roles, plugins }: Plan): Fault | undefined {
  if (!roles.includes('kubelet') || plugins.some(({ plugin }) => plugin.provides.token === Runtime.token)) return undefined;
  const at = file.locate(['spec', 'runtimes']);
  return {
    code: 'SlotEmpty',
    message: 'the role kubelet runs pods, and no runtime is named that could',
    path: 'spec.runtimes',
    ...(at && { at }),
    remedy: 'name one, such as `runtimes: [runtime-process]`, or leave kubelet out of roles',
  };
}

/** What else is wrong when some plugins cannot be loaded. That a slot is empty says nothing then. */
function faultsOfTheRest(file: ClusterFile, plugins: readonly Planned[]): readonly Fault[] {
  const host = new PluginHost();
  for (const planned of plugins) placePlanned(host, file, planned);
  return host.check().filter(({ code }) => code !== 'SlotEmpty');
}

async function planSection(
  file: ClusterFile,
  section: Section,
  faults: Fault[],
  here: ReadonlyMap<string, Plugin> = new Map(),
): Promise<Planned[]> {
  const builtinModule = builtinLists[section.key];
  const builtin = builtinModule === undefined ? [] : ((await load(builtinModule)) as { builtin: readonly Plugin[] }).builtin;
  const planned: Planned[] = [];
  for (const { placement, path } of placementsOf(file.spec, section)) {
    const at = file.locate(path);
    const known = builtin.find(({ id }) => id === placement.use);
    const given = here.get(placement.use);
    const loaded: Loaded = known
      ? { plugin: known, module: '' }
      : given
        ? { plugin: given, module: placement.use }
        : await loadPlugin(placement.use, file.file, { ...(at && { at }), path: path.join('.') });
    if ('fault' in loaded) {
      faults.push(loaded.fault);
      continue;
    }
    const { provides, id } = loaded.plugin;
    if (provides.token !== section.slot.token) {
      const same = slotName(provides.id) === slotName(section.slot.id);
      faults.push({
        code: same ? 'VersionMismatch' : 'WrongSlot',
        path: path.join('.'),
        ...(at && { at }),
        message: `${placement.use} fills slot ${provides.id}, and ${section.key} takes plugins for ${section.slot.id}`,
        remedy: same
          ? 'install a release of the plugin that is made for this version'
          : `list it where ${slotName(provides.id)} plugins are listed`,
      });
      continue;
    }
    const locate = (key: string) => {
      const spot = file.locate([...path, key]) ?? at;
      return { path: [...path, key].join('.'), ...(spot && { at: spot }) };
    };
    const host = hosted(loaded, placement, locate);
    if ('faults' in host) {
      faults.push(...host.faults);
      continue;
    }
    const { source, inputs } = loaded;
    planned.push({
      ...host,
      name: placement.name ?? id,
      config: placement.config,
      path: path.join('.'),
      segments: path,
      from: { placement, ...(source !== undefined && { source }), ...(inputs && { inputs }) },
    });
  }
  const replaced = new Set(planned.map(({ name }) => name));
  const rest = builtin
    .filter(({ id }) => !replaced.has(id))
    .map((plugin): Planned => ({ plugin, name: plugin.id, config: {}, path: `spec.${section.key}`, segments: ['spec', section.key] }));
  return [...rest, ...planned];
}

/** Places every plugin of a plan, each with where it and its config were written. */
export function placeAll(host: PluginHost, planned: Plan): void {
  for (const each of planned.plugins) placePlanned(host, planned.file, each);
}

function placePlanned(host: PluginHost, file: ClusterFile, { plugin, name, config, path, segments, wrap, front }: Planned): void {
  const at = file.locate(segments);
  const below = plugin.provides.token === Roles.token ? [] : ['config'];
  host.place({
    plugin,
    name,
    config,
    path,
    configPath: [path, ...below].join('.'),
    ...(at && { at }),
    ...(wrap && { wrap }),
    ...(front && { front }),
    locate: (keys) => file.locate([...segments, ...below, ...keys]),
  });
}
