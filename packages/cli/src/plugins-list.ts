import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundled, loadModule } from '@oarlock/cluster/plugins/plugin-loader';
import { oarlockVersion } from '@oarlock/cluster/process/version';
import { isPlugin, type Availability, type Plugin } from '@oarlock/kernel/plugin';
import { slotName } from '@oarlock/kernel/slot';
import { errorText } from '@oarlock/primitives/error-text';
import { exitCodes } from './common/command-error.ts';
import { probePlugin, probeTimeout } from './common/probe-plugin.ts';
import { printFacts, type OutputFormat } from './common/output.ts';

/** One plugin in `oarlock plugins list -o json`. `id` and `name` are equal: the name that `use` in a cluster.yaml takes. */
export interface ListedPlugin {
  readonly id: string;
  readonly slot: string;
  readonly name: string;
  readonly version: string;
  /** True if this machine meets the plugin's requirements with its default config. */
  readonly available: boolean;
  readonly because?: string;
  readonly declares: Readonly<Record<string, string | boolean>>;
}

/** The order of sections in a cluster.yaml; slots without a section come last. */
const slotOrder = [
  'storage',
  'authn',
  'authz',
  'admission',
  'audit',
  'paths',
  'scheduling',
  'controller',
  'runtime',
  'network',
  'volume',
  'policy',
  'proxy',
  'dns',
  'cloud',
  'role',
];
/** Modules of packages that contain several plugins. Each module exports its plugins as `builtin`. */
const builtinModules: Readonly<Record<string, string>> = {
  '@oarlock/controllers': '@oarlock/controllers/builtin',
  '@oarlock/scheduler': '@oarlock/scheduler/plugins/registry',
};
const probeLimitMs = 1_000;

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly exports?: unknown;
}
interface InstalledPlugin {
  readonly plugin: Plugin;
  readonly version: string;
}

/** Prints the installed plugins by slot, and whether this machine can run them. */
export async function list({ output }: { readonly output: OutputFormat }): Promise<void> {
  const plugins = await installedPlugins();
  await printFacts(output, plugins, table);
  // a probe that never returns would keep the process alive
  if (plugins.some(({ because }) => because === probeTimeout)) process.exit(exitCodes.done);
}

/** Returns every plugin of the installed @oarlock packages and of the built-in lists. Probes them concurrently. */
export async function installedPlugins(): Promise<readonly ListedPlugin[]> {
  const listed: Promise<ListedPlugin | undefined>[] = [];
  // beside the program there are packages that it contains, such as those that the tests of a plugin need
  const packagesByName = new Map([...(await installedPackages()), ...bundledPackages()].map((each) => [each.name, each]));
  for (const { name, version, hasPlugin } of packagesByName.values()) {
    if (hasPlugin) listed.push(load(name, version));
    const builtinModule = builtinModules[name];
    if (builtinModule !== undefined) listed.push(...(await builtins(builtinModule, version)).map(describe));
  }
  const rank = ({ slot }: ListedPlugin) => (slotOrder.includes(slot) ? slotOrder.indexOf(slot) : slotOrder.length);
  const order = (a: ListedPlugin, b: ListedPlugin) => rank(a) - rank(b) || a.slot.localeCompare(b.slot) || a.name.localeCompare(b.name);
  return (await Promise.all(listed)).filter((plugin) => plugin !== undefined).sort(order);
}

interface PluginPackage {
  readonly name: string;
  readonly version: string;
  /** True if the package exports a plugin as `./plugin`. */
  readonly hasPlugin: boolean;
}

async function installedPackages(): Promise<readonly PluginPackage[]> {
  return (await packages()).flatMap(({ manifest, folder }) => {
    const { name, version = '' } = manifest;
    return name === undefined ? [] : [{ name, version, hasPlugin: exportsFile(manifest, folder, 'plugin') }];
  });
}

/** Returns the packages of the bundled program, if it is installed without them. */
function bundledPackages(): readonly PluginPackage[] {
  if (existsSync(join(dirname(fileURLToPath(import.meta.url)), '..', 'dist'))) return [];
  const names = new Set([...bundled.keys()].map((specifier) => specifier.split('/').slice(0, 2).join('/')));
  return [...names].map((name) => ({ name, version: oarlockVersion, hasPlugin: bundled.has(`${name}/plugin`) }));
}

/** Returns the packages of all node_modules/@oarlock above this file; of two with the same name, the one that Node would load. */
async function packages(): Promise<readonly { readonly manifest: Manifest; readonly folder: string }[]> {
  const found = new Map<string, { manifest: Manifest; folder: string }>();
  for (let at = dirname(fileURLToPath(import.meta.url)); ; at = dirname(at)) {
    const scope = join(at, 'node_modules', '@oarlock');
    for (const entry of existsSync(scope) ? await readdir(scope) : []) {
      const folder = join(scope, entry);
      if (found.has(entry) || !existsSync(join(folder, 'package.json'))) continue;
      found.set(entry, { folder, manifest: JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest });
    }
    if (dirname(at) === at) return [...found.values()];
  }
}

/** Returns true if the package exports `./<subpath>` and one of its targets exists, built or source. */
function exportsFile({ exports }: Manifest, folder: string, subpath: string): boolean {
  if (typeof exports !== 'object' || exports === null) return false;
  const table = exports as Readonly<Record<string, unknown>>;
  const targets = (target: unknown): readonly string[] =>
    typeof target === 'string' ? [target] : typeof target === 'object' && target !== null ? Object.values(target).flatMap(targets) : [];
  return targets(table[`./${subpath}`] ?? table['./*']).some((target) => existsSync(join(folder, target.replace('*', subpath))));
}

/** Loads the plugin of a package. Returns undefined if the module does not export a plugin, such as the module `plugin` of the kernel. */
async function load(name: string, version: string): Promise<ListedPlugin | undefined> {
  const id = name.slice(name.indexOf('/') + 1);
  const broken = (because: string): ListedPlugin => {
    const slot = id.slice(0, id.indexOf('-') < 0 ? id.length : id.indexOf('-'));
    return { id, slot, name: id, version, available: false, because, declares: {} };
  };
  try {
    const module = (await loadModule(`${name}/plugin`)) as { readonly default?: unknown };
    if (!('default' in module)) return undefined;
    const { default: plugin } = module;
    return isPlugin(plugin) ? await describe({ plugin, version }) : broken('its default export is not a plugin');
  } catch (error) {
    return broken(`failed to load: ${errorText(error)}`);
  }
}

async function builtins(module: string, version: string): Promise<readonly InstalledPlugin[]> {
  const { builtin } = (await loadModule(module)) as { readonly builtin: readonly Plugin[] };
  return builtin.map((plugin) => ({ plugin, version }));
}

/** Returns the availability in the JSON output of `oarlock plugins list`, which has the key `because` for the reason. */
const listedAvailability = (availability: Availability) =>
  availability.available ? { available: true } : { available: false, because: availability.reason };

async function describe({ plugin, version }: InstalledPlugin): Promise<ListedPlugin> {
  const { id, provides, declares = {} } = plugin;
  return { id, slot: slotName(provides.id), name: id, version, ...listedAvailability(await availability(plugin)), declares };
}

/** Probes a plugin with its default config. */
export function availability(plugin: Plugin, limitMs = probeLimitMs): Promise<Availability> {
  return probePlugin(plugin, { config: {}, limitMs });
}

function table(plugins: readonly ListedPlugin[]): string {
  const width = Math.max(0, ...plugins.map(({ name }) => name.length));
  const lines: string[] = [];
  let slot: string | undefined;
  for (const plugin of plugins) {
    if (plugin.slot !== slot) lines.push(...(slot === undefined ? [] : ['']), plugin.slot);
    slot = plugin.slot;
    const declares = Object.entries(plugin.declares).map(([key, value]) => `${key}=${value}`);
    const state = plugin.available ? 'available' : `unavailable: ${plugin.because}`;
    lines.push(`  ${plugin.name.padEnd(width)}  ${plugin.version}  ${state}${declares.length > 0 ? `  (${declares.join(', ')})` : ''}`);
  }
  return `${lines.join('\n')}\n`;
}
