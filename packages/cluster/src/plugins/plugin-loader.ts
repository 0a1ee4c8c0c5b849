import { existsSync } from 'node:fs';
import { dirname, extname, isAbsolute, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import { isPlugin, type Plugin } from '@oarlock/kernel/plugin';
import { slotName } from '@oarlock/kernel/slot';
import { errorText } from '@oarlock/primitives/error-text';
import { CompileError, CompilerMissing, PluginCompiler, resolveFrom } from './plugin-compiler.ts';

/**
 * The result of loading a plugin. `module` is the specifier that a worker thread imports to load the same plugin; `source` is the author's file, if
 * there is one.
 */
export type LoadResult =
  | { readonly plugin: Plugin; readonly module: string; readonly source?: string; readonly inputs?: readonly string[] }
  | { readonly fault: Fault; readonly inputs?: readonly string[] };
interface PluginLocation {
  readonly at?: SourcePosition;
  readonly path?: string;
}

/**
 * Modules of the bundled program, by specifier: opening hundreds of files takes most of a cold start. Only the bundled program fills this map, before
 * any other code runs.
 */
export const bundled = new Map<string, () => Promise<unknown>>();

let importModule = (specifier: string): Promise<unknown> => import(specifier);

/**
 * Sets the function that imports modules. The bundled program is a script, in which `import()` is not available, so its loader provides the function.
 */
export function importWith(importer: (specifier: string) => Promise<unknown>): void {
  importModule = importer;
}

/** Imports a module by its specifier in a composition. */
export function loadModule(specifier: string): Promise<unknown> {
  return bundled.get(specifier)?.() ?? importModule(specifier);
}

const typescript: ReadonlySet<string> = new Set(['.ts', '.mts', '.cts', '.tsx']);

/**
 * Loads a plugin by package name or by path. `storage-memory` is a package of Oarlock, `@acme/oarlock-thing` a package of another author; a path is
 * relative to the cluster file. The plugin is the module's default export; packages export the module as `./plugin`. TypeScript needs no build.
 */
export async function loadPlugin(use: string, baseFile: string | undefined, where: PluginLocation = {}): Promise<LoadResult> {
  const base = baseFile === undefined ? process.cwd() : dirname(resolve(baseFile));
  if (use.startsWith('.') || isAbsolute(use)) {
    const file = resolve(base, use);
    if (existsSync(file)) return loadPluginFile(new PluginCompiler(file), { file, where, once: true });
    return missingPlugin(use, where, `${file} does not exist`);
  }
  for (const specifier of use.startsWith('@') ? [] : [`@oarlock/${use}/plugin`]) {
    try {
      return pluginFromModule(await loadModule(specifier), { use, where, module: specifier });
    } catch (error) {
      if (!isMissing(error, specifier)) return brokenPlugin(use, error, where);
    }
  }
  for (const specifier of [`${use}/plugin`, use]) {
    const file = await resolveFrom(base, specifier);
    if (file === undefined) continue;
    if (typescript.has(extname(file))) return loadPluginFile(new PluginCompiler(file), { file, where, once: true });
    try {
      process.setSourceMapsEnabled(true); // a package may contain source maps
      return pluginFromModule(await importModule(pathToFileURL(file).href), { use, where, module: pathToFileURL(file).href });
    } catch (error) {
      return brokenPlugin(use, error, where);
    }
  }
  return missingPlugin(use, where, '`oarlock plugins list` shows the installed plugins; the path of a file must begin with ./');
}

/** The file of a plugin, where the composition names it, and whether it is loaded anew. */
export interface PluginFile {
  readonly file: string;
  readonly where?: PluginLocation | undefined;
  readonly once?: boolean | undefined;
}

/** Loads a plugin from its source. With `once`, disposes the compiler afterwards; otherwise the compiler can compile the next version. */
export async function loadPluginFile(compiler: PluginCompiler, { file, where = {}, once = false }: PluginFile): Promise<LoadResult> {
  const use = displayPath(file);
  try {
    process.setSourceMapsEnabled(true); // stack traces name lines of the source
    const compiled = await compiler.compile();
    const module = pathToFileURL(compiled.file).href;
    try {
      return { ...pluginFromModule(await importModule(module), { use, where, module, source: file }), inputs: compiled.inputs };
    } catch (error) {
      return { ...brokenPlugin(use, error, where), inputs: compiled.inputs };
    }
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    if (!existsSync(file))
      return { ...missingPlugin(use, where, 'restore the file, or name the one that replaces it'), inputs: error.inputs };
    const message = `${use} does not compile:\n    ${error.message.replaceAll('\n', '\n    ')}`;
    const remedy = error instanceof CompilerMissing ? error.remedy : 'correct the source';
    return { fault: { code: 'PluginNotFound', message, ...where, remedy }, inputs: error.inputs };
  } finally {
    if (once) await compiler.dispose();
  }
}

const displayPath = (file: string): string => {
  const short = relative(process.cwd(), file);
  return short.startsWith('..') ? file : `./${short}`;
};

function missingPlugin(use: string, where: PluginLocation, remedy: string): LoadResult {
  return { fault: { code: 'PluginNotFound', message: `plugin ${use} not found`, ...where, remedy } };
}

function brokenPlugin(use: string, error: unknown, where: PluginLocation): LoadResult {
  return {
    fault: {
      code: 'PluginNotFound',
      message: `${use} cannot be loaded: ${errorText(error)}${positionOf(error)}`,
      ...where,
      remedy: 'correct the plugin, or install the packages that it imports',
    },
  };
}

/** Returns the first position in an error's stack that is in a TypeScript file, which is the plugin author's. */
function positionOf(error: unknown): string {
  const lines = error instanceof Error ? (error.stack ?? '').split('\n') : [];
  const [, position] =
    lines.map((line) => /\(?((?:file:\/\/)?\/[^()]+\.[cm]?tsx?:\d+:\d+)\)?$/.exec(line)).find((match) => match !== null) ?? [];
  return position === undefined ? '' : `\n    at ${position}`;
}

interface PluginSource {
  readonly use: string;
  readonly where: PluginLocation;
  readonly module: string;
  readonly source?: string;
}

function pluginFromModule(module: unknown, { use, where, ...from }: PluginSource): LoadResult {
  const { default: exported } = module as { readonly default?: unknown };
  if (isPlugin(exported)) return { plugin: exported, ...from };
  return {
    fault: {
      code: 'NotAPlugin',
      message: `${use} has no plugin as its default export: ${describeExports(module as Readonly<Record<string, unknown>>)}`,
      ...where,
      remedy: 'export default Slot.plugin({ id, config, create }), where Slot is Admission, Authn, Authz, ... of @oarlock/spi',
    },
  };
}

/** Describes what a module exports instead of a plugin, or the properties that its default export lacks. */
function describeExports({ default: exported, ...named }: Readonly<Record<string, unknown>>): string {
  if (exported === undefined) {
    const plugins = Object.keys(named).filter((name) => isPlugin(named[name]));
    if (plugins.length > 0) return `${plugins.join(', ')} is a plugin, but not the default export`;
    return Object.keys(named).length === 0 ? 'it exports nothing' : `it exports ${Object.keys(named).join(', ')} and no default`;
  }
  if (typeof exported !== 'object' || exported === null) return `it is a ${exported === null ? 'null' : typeof exported}`;
  const { id, provides, config, create } = exported as Partial<Plugin>;
  if (provides === undefined) return 'it is an object that was not created with Slot.plugin';
  const missing = [
    typeof id === 'string' ? '' : 'an id',
    typeof config?.safeParse === 'function' ? '' : 'config, a zod schema (z.strictObject({}) for none)',
    typeof create === 'function' ? '' : 'create, a function',
  ].filter((each) => each !== '');
  return `the ${slotName(provides.id)} plugin lacks ${missing.join(' and ')}`;
}

/** Returns true if the requested module is missing. Returns false if a module that it imports is missing, because the plugin is then broken. */
function isMissing(error: unknown, specifier: string): boolean {
  const { code, message = '' } = error as NodeJS.ErrnoException;
  if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED' || code === 'ERR_UNSUPPORTED_DIR_IMPORT') return true;
  if (code !== 'ERR_MODULE_NOT_FOUND') return false;
  return message.includes(`'${specifier.replace(/\/plugin$/, '')}'`) || message.includes(`'${specifier}'`);
}
