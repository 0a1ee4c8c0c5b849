import { register } from 'node:module';
import { dirname, extname, isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Fault, SourcePosition } from '@oarlock/kernel/errors';
import { isPlugin, type Plugin } from '@oarlock/kernel/plugin';

export type Loaded = { readonly plugin: Plugin } | { readonly fault: Fault };
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

const typescript = new Set(['.ts', '.mts', '.tsx']);
let typescriptReady = false;

/** A plugin written as a TypeScript file runs as it is; the loader is registered when the first one is met. */
async function enableTypescript(): Promise<void> {
  if (typescriptReady || process.execArgv.some((arg) => arg.includes('oxc-node'))) return;
  typescriptReady = true;
  register('@oxc-node/core/esm', import.meta.url);
}

/**
 * Loads a plugin by package name (`storage-memory` is ours, `@acme/oarlock-thing` somebody's) or by path, relative to the
 * cluster file. The plugin is the module's default export; packages export it as `./plugin`.
 */
export async function loadPlugin(use: string, baseFile: string | undefined, where: Where = {}): Promise<Loaded> {
  const base = baseFile === undefined ? process.cwd() : dirname(resolve(baseFile));
  const candidates =
    use.startsWith('.') || isAbsolute(use)
      ? [pathToFileURL(resolve(base, use)).href]
      : [...(use.startsWith('@') ? [] : [`@oarlock/${use}/plugin`]), `${use}/plugin`, use];
  if (typescript.has(extname(use))) await enableTypescript();
  for (const specifier of candidates) {
    try {
      const module = (await load(specifier)) as { default?: unknown };
      if (isPlugin(module.default)) return { plugin: module.default };
      return {
        fault: {
          code: 'NotAPlugin',
          message: `${use} has no plugin as its default export`,
          ...where,
          remedy: 'export default Slot.plugin({ ... })',
        },
      };
    } catch (error) {
      if (!isMissing(error, specifier))
        return {
          fault: {
            code: 'PluginNotFound',
            message: `${use} cannot be loaded: ${(error as Error).message}`,
            ...where,
            remedy: 'the plugin is there and broken: correct it, or install what it imports',
          },
        };
    }
  }
  return {
    fault: {
      code: 'PluginNotFound',
      message: `there is no plugin ${use}`,
      ...where,
      remedy: '`oarlock plugins list` shows what is installed; a file is named by a path that begins with ./',
    },
  };
}

/** Only the module that was asked for: one that is missing further down is a broken plugin, not an absent one. */
function isMissing(error: unknown, specifier: string): boolean {
  const { code, message = '' } = error as NodeJS.ErrnoException;
  if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED' || code === 'ERR_UNSUPPORTED_DIR_IMPORT') return true;
  if (code !== 'ERR_MODULE_NOT_FOUND') return false;
  const name = specifier.startsWith('file:') ? specifier.slice('file://'.length) : specifier.replace(/\/plugin$/, '');
  return message.includes(`'${name}'`) || message.includes(`'${specifier}'`);
}
