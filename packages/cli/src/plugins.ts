import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load as loadModule } from '@oarlock/cluster/plugin-loader';
import { isPlugin, unavailable, type Availability, type Plugin } from '@oarlock/kernel/plugin';
import { slotName } from '@oarlock/kernel/slot';
import { CommandError, exitCodes } from './exit.ts';

/** One line of `oarlock plugins list -o json`. `id` and `name` are the same: what `use` in a cluster.yaml names. */
export interface ListedPlugin {
  readonly id: string;
  readonly slot: string;
  readonly name: string;
  readonly version: string;
  /** Whether this machine has what the plugin needs with its default config. */
  readonly available: boolean;
  readonly because?: string;
  readonly declares: Readonly<Record<string, string | boolean>>;
}

/** In the order of a cluster.yaml; slots that are not in it come last. */
const slotOrder = [
  'storage',
  'authn',
  'authz',
  'admission',
  'audit',
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
/** Packages that bring plugins of their own along, in a list. */
const builtinLists = ['@oarlock/controllers', '@oarlock/scheduler'];
const probeLimitMs = 1_000;

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly exports?: unknown;
}
interface Found {
  readonly plugin: Plugin;
  readonly version: string;
}

/** Prints what is installed, by slot, and whether this machine can run it. @throws CommandError for an output that there is not */
export async function list({ output }: { readonly output: string }): Promise<void> {
  if (output !== 'text' && output !== 'json')
    throw new CommandError(`there is no output ${JSON.stringify(output)}: text or json`, exitCodes.usage);
  const plugins = await installedPlugins();
  const text = output === 'json' ? `${JSON.stringify(plugins, null, 2)}\n` : table(plugins);
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
  // a probe that never ends would keep the process
  if (plugins.some(({ because }) => because === tooSlow)) process.exit(exitCodes.done);
}

/** Every plugin of the installed @oarlock packages and of the built-in lists, probed at the same time. */
export async function installedPlugins(): Promise<readonly ListedPlugin[]> {
  const listed: Promise<ListedPlugin | undefined>[] = [];
  for (const { manifest, folder } of await packages()) {
    const { name, version = '' } = manifest;
    if (name === undefined) continue;
    if (exportsFile(manifest, folder, 'plugin')) listed.push(load(name, version));
    if (builtinLists.includes(name)) listed.push(...(await builtins(name, version)).map(describe));
  }
  const rank = ({ slot }: ListedPlugin) => (slotOrder.includes(slot) ? slotOrder.indexOf(slot) : slotOrder.length);
  const order = (a: ListedPlugin, b: ListedPlugin) => rank(a) - rank(b) || a.slot.localeCompare(b.slot) || a.name.localeCompare(b.name);
  return (await Promise.all(listed)).filter((plugin) => plugin !== undefined).sort(order);
}

/** Packages beside this one, wherever it is installed; of two with one name that which Node would load. */
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

/** Whether `./<subpath>` is exported and one of the files behind it is there, built or source. */
function exportsFile({ exports }: Manifest, folder: string, subpath: string): boolean {
  if (typeof exports !== 'object' || exports === null) return false;
  const table = exports as Readonly<Record<string, unknown>>;
  const targets = (target: unknown): readonly string[] =>
    typeof target === 'string' ? [target] : typeof target === 'object' && target !== null ? Object.values(target).flatMap(targets) : [];
  return targets(table[`./${subpath}`] ?? table['./*']).some((target) => existsSync(join(folder, target.replace('*', subpath))));
}

/** Undefined for a module that is called `plugin` and has nothing to do with it: the kernel's interface. */
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
    return broken(`it cannot be loaded: ${messageOf(error)}`);
  }
}

async function builtins(name: string, version: string): Promise<readonly Found[]> {
  const { builtin } = (await loadModule(`${name}/builtin`)) as { readonly builtin: readonly Plugin[] };
  return builtin.map((plugin) => ({ plugin, version }));
}

async function describe({ plugin, version }: Found): Promise<ListedPlugin> {
  const { id, provides, declares = {} } = plugin;
  return { id, slot: slotName(provides.id), name: id, version, ...(await availability(plugin)), declares };
}

const tooSlow = 'its probe did not answer within a second';

/** Asks the plugin with the config it has when a cluster.yaml states none. */
export async function availability(plugin: Plugin, limitMs = probeLimitMs): Promise<Availability> {
  if (plugin.probe === undefined) return { available: true };
  const config = plugin.config.safeParse({});
  if (!config.success) {
    const keys = config.error.issues.map(({ path }) => path.map(String).join('.')).join(', ');
    return unavailable(`it cannot be asked without a config: ${keys}`);
  }
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<Availability>((resolve) => {
    timer = setTimeout(() => resolve(unavailable(tooSlow)), limitMs);
  });
  try {
    return await Promise.race([plugin.probe(config.data), limit]);
  } catch (error) {
    return unavailable(`its probe failed: ${messageOf(error)}`);
  } finally {
    clearTimeout(timer);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function table(plugins: readonly ListedPlugin[]): string {
  const wide = Math.max(0, ...plugins.map(({ name }) => name.length));
  const lines: string[] = [];
  let slot: string | undefined;
  for (const plugin of plugins) {
    if (plugin.slot !== slot) lines.push(...(slot === undefined ? [] : ['']), plugin.slot);
    slot = plugin.slot;
    const declares = Object.entries(plugin.declares).map(([key, value]) => `${key}=${value}`);
    const here = plugin.available ? 'available' : `not here: ${plugin.because}`;
    lines.push(`  ${plugin.name.padEnd(wide)}  ${plugin.version}  ${here}${declares.length > 0 ? `  (${declares.join(', ')})` : ''}`);
  }
  return `${lines.join('\n')}\n`;
}
