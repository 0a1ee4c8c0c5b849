import { existsSync } from 'node:fs';
import { dirname, extname, isAbsolute, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import { isPlugin, type Plugin } from '@oarlock/kernel/plugin';
import { slotName } from '@oarlock/kernel/slot';
import { CompileError, PluginCompiler, resolveFrom } from './plugin-compiler.ts';

/** `module` is what another thread imports to get the same plugin. `source` is the file that its author wrote, where it is one. */
export type Loaded =
  | { readonly plugin: Plugin; readonly module: string; readonly source?: string; readonly inputs?: readonly string[] }
  | { readonly fault: Fault; readonly inputs?: readonly string[] };
interface Where {
  readonly at?: SourcePosition;
  readonly path?: string;
}

/**
 * Modules of ours that the build joined into one file, because opening hundreds is most of a cold start. Filled by the joined
 * program before anything else runs; empty when it runs from what the compiler made, or from source.
 */
export const bundled = new Map<string, () => Promise<unknown>>();

let importModule = (specifier: string): Promise<unknown> => import(specifier);

/** The joined program is no module, and cannot import any: who started it does so for it. */
export function importWith(importer: (specifier: string) => Promise<unknown>): void {
  importModule = importer;
}

/** Imports a module by the name it has in a composition. */
export function load(specifier: string): Promise<unknown> {
  return bundled.get(specifier)?.() ?? importModule(specifier);
}

const typescript: ReadonlySet<string> = new Set(['.ts', '.mts', '.cts', '.tsx']);

/**
 * Loads a plugin by package name (`storage-memory` is ours, `@acme/oarlock-thing` somebody's) or by path, relative to the
 * cluster file. The plugin is the module's default export; packages export it as `./plugin`. TypeScript runs as it is.
 */
export async function loadPlugin(use: string, baseFile: string | undefined, where: Where = {}): Promise<Loaded> {
  const base = baseFile === undefined ? process.cwd() : dirname(resolve(baseFile));
  if (use.startsWith('.') || isAbsolute(use)) {
    const file = resolve(base, use);
    if (existsSync(file)) return loadPluginFile(new PluginCompiler(file), file, where, true);
    return missing(use, where, `${file} does not exist`);
  }
  for (const specifier of use.startsWith('@') ? [] : [`@oarlock/${use}/plugin`]) {
    try {
      return pluginOf(await load(specifier), { use, where, module: specifier });
    } catch (error) {
      if (!isMissing(error, specifier)) return broken(use, error, where);
    }
  }
  for (const specifier of [`${use}/plugin`, use]) {
    const file = await resolveFrom(base, specifier);
    if (file === undefined) continue;
    if (typescript.has(extname(file))) return loadPluginFile(new PluginCompiler(file), file, where, true);
    try {
      return pluginOf(await importModule(pathToFileURL(file).href), { use, where, module: pathToFileURL(file).href });
    } catch (error) {
      return broken(use, error, where);
    }
  }
  return missing(use, where, '`oarlock plugins list` shows what is installed; a file is named by a path that begins with ./');
}

/** A plugin from its source. The compiler is kept by who wants to load it again. */
export async function loadPluginFile(compiler: PluginCompiler, file: string, where: Where = {}, once = false): Promise<Loaded> {
  const use = shown(file);
  try {
    process.setSourceMapsEnabled(true); // traces name the lines that the author wrote
    const compiled = await compiler.compile();
    const module = pathToFileURL(compiled.file).href;
    try {
      return { ...pluginOf(await importModule(module), { use, where, module, source: file }), inputs: compiled.inputs };
    } catch (error) {
      return { ...broken(use, error, where), inputs: compiled.inputs };
    }
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    const message = `${use} does not compile:\n    ${error.message.replaceAll('\n', '\n    ')}`;
    return { fault: { code: 'PluginNotFound', message, ...where, remedy: 'correct it there' }, inputs: error.inputs };
  } finally {
    if (once) await compiler.dispose();
  }
}

const shown = (file: string): string => {
  const short = relative(process.cwd(), file);
  return short.startsWith('..') ? file : `./${short}`;
};

function missing(use: string, where: Where, remedy: string): Loaded {
  return { fault: { code: 'PluginNotFound', message: `there is no plugin ${use}`, ...where, remedy } };
}

function broken(use: string, error: unknown, where: Where): Loaded {
  return {
    fault: {
      code: 'PluginNotFound',
      message: `${use} cannot be loaded: ${error instanceof Error ? error.message : String(error)}${placeOf(error)}`,
      ...where,
      remedy: 'the plugin is there and broken: correct it, or install what it imports',
    },
  };
}

/** The first line of a trace that is the author's own. */
function placeOf(error: unknown): string {
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : [];
  const [, place] =
    lines.map((line) => /\(?((?:file:\/\/)?\/[^()]+\.[cm]?tsx?:\d+:\d+)\)?$/.exec(line)).find((match) => match !== null) ?? [];
  return place === undefined ? '' : `\n    at ${place}`;
}

interface From {
  readonly use: string;
  readonly where: Where;
  readonly module: string;
  readonly source?: string;
}

function pluginOf(module: unknown, { use, where, ...from }: From): Loaded {
  const { default: exported } = module as { readonly default?: unknown };
  if (isPlugin(exported)) return { plugin: exported, ...from };
  return {
    fault: {
      code: 'NotAPlugin',
      message: `${use} has no plugin as its default export: ${shapeOf(module as Readonly<Record<string, unknown>>)}`,
      ...where,
      remedy: 'export default Slot.plugin({ id, config, create }), where Slot is Admission, Authn, Authz, ... of @oarlock/spi',
    },
  };
}

/** What is there instead, and what it lacks. */
function shapeOf({ default: exported, ...named }: Readonly<Record<string, unknown>>): string {
  if (exported === undefined) {
    const plugins = Object.keys(named).filter((name) => isPlugin(named[name]));
    if (plugins.length > 0) return `${plugins.join(', ')} is one, but no default export`;
    return Object.keys(named).length === 0 ? 'it exports nothing' : `it exports ${Object.keys(named).join(', ')} and no default`;
  }
  if (typeof exported !== 'object' || exported === null) return `it is a ${exported === null ? 'null' : typeof exported}`;
  const { id, provides, config, create } = exported as Partial<Plugin>;
  if (provides === undefined) return 'it is an object that no slot made';
  const lacks = [
    typeof id === 'string' ? '' : 'an id',
    typeof config?.safeParse === 'function' ? '' : 'config, a zod schema (z.strictObject({}) for none)',
    typeof create === 'function' ? '' : 'create, a function',
  ].filter((each) => each !== '');
  return `the ${slotName(provides.id)} plugin lacks ${lacks.join(' and ')}`;
}

/** Only the module that was asked for: one that is missing further down is a broken plugin, not an absent one. */
function isMissing(error: unknown, specifier: string): boolean {
  const { code, message = '' } = error as NodeJS.ErrnoException;
  if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED' || code === 'ERR_UNSUPPORTED_DIR_IMPORT') return true;
  if (code !== 'ERR_MODULE_NOT_FOUND') return false;
  return message.includes(`'${specifier.replace(/\/plugin$/, '')}'`) || message.includes(`'${specifier}'`);
}
