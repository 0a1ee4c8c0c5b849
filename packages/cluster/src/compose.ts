import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { WiringError, type Fault } from '@oarlock/kernel/errors';
import { systemClock, type Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost, type Placement } from '@oarlock/kernel/plugin-host';
import { slotName } from '@oarlock/kernel/slot';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Client, Events, Informers, type EventSource } from '@oarlock/spi/client';
import { Loopback, type LoopbackSwitch } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Roles, type Role } from '@oarlock/spi/role';
import { Runtime } from '@oarlock/spi/runtime';
import { explainPath } from '@oarlock/scheduler/explain-path';
import { Spans, type SpanStore } from '@oarlock/spi/spans';
import { spanIntake, traceQuery } from '@oarlock/tracing/trace-paths';
import type { Tracer } from '@opentelemetry/api';
import { nthAddress, primaryAddress } from './addresses.ts';
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
import { version } from './version.ts';

/** Everything the composition takes from outside: nothing below reads the environment. */
export interface ComposeOptions {
  readonly dataDir: string;
  readonly roles?: readonly RoleName[];
  readonly port?: number;
  readonly nodeName?: string;
  /** A node that joined: the facts it was told, and the files of its serving certificate. */
  readonly joined?: Joined;
  /** The API server of another process. */
  readonly server?: string;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly tracer?: (plugin: string) => Tracer;
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

/** What a composition is given to reach the API with: made after the facts are known, before any plugin is created. */
export interface Access {
  readonly keys: ClusterKeys;
  readonly client: Client;
  readonly informers: Informers;
  readonly events: EventSource;
  readonly loopback: LoopbackSwitch;
  readonly spans: SpanStore;
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
export async function plan(
  file: ClusterFile,
  options: Pick<ComposeOptions, 'roles' | 'port' | 'nodeName' | 'joined' | 'server' | 'arrange' | 'known'> = {},
): Promise<Plan> {
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

function factsOf(
  file: ClusterFile,
  plugins: readonly Planned[],
  { port, joined, server: remote }: Pick<ComposeOptions, 'port' | 'joined' | 'server'>,
): ClusterFacts {
  const { server } = file.spec;
  const networking = { ...file.spec.networking, ...joined?.cluster };
  const declared = plugins.find(({ plugin }) => slotName(plugin.provides.id) === 'network')?.plugin.declares ?? {};
  const text = (key: string, otherwise: string) => (typeof declared[key] === 'string' ? declared[key] : otherwise);
  const serviceCIDRs = networking.serviceCIDRs ?? [text('serviceCIDR', '10.96.0.0/16')];
  const [from = 30_000, to = 32_767] = networking.nodePorts.split('-').map(Number);
  const wildcard = server.address === '0.0.0.0' || server.address === '::';
  const host = server.advertiseAddress ?? (wildcard ? primaryAddress() : server.address);
  return {
    name: joined?.cluster.name ?? file.name,
    domain: networking.domain,
    version,
    podCIDRs: networking.podCIDRs ?? [text('podCIDR', '10.244.0.0/16')],
    serviceCIDRs,
    kubernetesServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 1),
    dnsServiceIP: nthAddress(serviceCIDRs[0] ?? '10.96.0.0/16', 10),
    serverUrl: joined?.server ?? remote ?? `https://${host.includes(':') ? `[${host}]` : host}:${port ?? server.port}`,
    nodePortRange: { from, to },
  };
}

/** Relative to the cluster file, as plugins are. */
const placed = ({ file }: ClusterFile, path: string): string => resolve(file === undefined ? '.' : dirname(file), path);

function encryptionOf(clusterFile: ClusterFile) {
  const { encryption } = clusterFile.spec;
  if (encryption === undefined) return {};
  const place = (path: string) => placed(clusterFile, path);
  const keys = encryption.keys.map((key) => ({ ...key, file: place(key.file) }));
  return { encryption: { ...encryption, keys, ...(encryption.file !== undefined && { file: place(encryption.file) }) } };
}

/** The settings of a role, and of who has to know the composition, from the file, over what the composition knows anyway. */
function withRoleConfig(
  planned: Planned,
  file: ClusterFile,
  facts: ClusterFacts,
  { port, joined, nodeName, remote }: Pick<ComposeOptions, 'port' | 'joined'> & { readonly nodeName: string; readonly remote: boolean },
): Planned {
  const { spec } = file;
  if (planned.plugin.id === 'authz-rbac')
    return {
      ...planned,
      config: {
        nodePolicies: spec.policy !== undefined,
        nodeVolumes: spec.volumes.some(({ use }) => use === 'volume-csi'),
        ...(planned.config as object),
      },
    };
  if (planned.plugin.provides.token !== Roles.token) return planned;
  const settled: Record<string, Record<string, unknown>> = {
    apiserver: {
      listen: { address: spec.server.address, port: port ?? spec.server.port },
      advertiseAddress: new URL(facts.serverUrl).hostname.replace(/^\[|\]$/g, ''),
      certSANs: spec.server.names,
      ...encryptionOf(file),
      ...(spec.auditPolicy !== undefined && { auditPolicy: placed(file, spec.auditPolicy) }),
    },
    // away from the API server others may run the same: one of them leads
    controllers: { leaderElect: remote },
    scheduler: { leaderElect: remote, leaseName: 'kube-scheduler' },
    kubelet: { nodeName, ...(joined && { tls: { certificateFile: joined.certificateFile, keyFile: joined.keyFile } }) },
    proxy: { nodeName },
  };
  return { ...planned, config: { ...settled[planned.name], ...spec.settings[planned.name as RoleName] } };
}

export interface Composition {
  readonly plan: Plan;
  readonly host: PluginHost;
  start(signal?: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  roles(): readonly Role[];
}

/** Wires a plan. Pure: no I/O before `start`. @throws WiringError from `start`, with every fault found */
export function compose(planned: Plan, access: Access, options: ComposeOptions): Composition {
  const host = new PluginHost({
    clock: options.clock ?? systemClock,
    ...(options.log && { log: options.log }),
    ...(options.tracer && { tracer: options.tracer }),
    dataDir: join(options.dataDir, 'plugins'),
  });
  host
    .provide(Cluster, planned.facts)
    .provide(Keys, access.keys)
    .provide(Client, access.client)
    .provide(Informers, access.informers)
    .provide(Events, access.events)
    .provide(Loopback, access.loopback)
    .provide(Spans, access.spans)
    .provide(Process, { registries: () => host.units.map(({ metrics }) => metrics), roles: () => host.get(Roles) });
  placeAll(host, planned);
  return {
    plan: planned,
    host,
    start: (signal) => host.start(signal),
    stop: () => host.stop(),
    roles: () => host.get(Roles),
  };
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
