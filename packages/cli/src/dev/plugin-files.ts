import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { describeFault } from '@oarlock/kernel/errors';
import { CommandError, exitCodes } from '../common/command-error.ts';

const moduleFile = /(?<!\.d|\.test|\.spec|\.config)\.(?:[cm]?ts|m?js)$/;

/**
 * Returns the files of plugins: a file stands for itself, a folder for the plugin of its package (`exports["./plugin"]`, `src/plugin.ts` or
 * `plugin.ts`), or else for the plugins among its files and the packages directly below it.
 * @throws CommandError if a path does not exist, or a folder has no plugin
 */
export async function pluginFiles(paths: readonly string[]): Promise<readonly string[]> {
  const files: string[] = [];
  for (const path of paths) {
    if (!(await isFolder(path))) {
      files.push(path);
      continue;
    }
    const own = await pluginOfPackage(resolve(path));
    const found = own === undefined ? await pluginsBelow(resolve(path)) : [own];
    if (found.length === 0) throw new CommandError(`${path} contains no plugin: name a file, or a folder with plugins`, exitCodes.usage);
    files.push(...found);
  }
  return files;
}

async function isFolder(path: string): Promise<boolean> {
  // a path that does not exist is reported when the plugin is loaded
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );

async function pluginOfPackage(folder: string): Promise<string | undefined> {
  const exported = await exportedPlugin(join(folder, 'package.json'));
  for (const name of [...(exported === undefined ? [] : [exported]), 'src/plugin.ts', 'plugin.ts'])
    if (await isFile(join(folder, name))) return join(folder, name);
  return undefined;
}

/** Returns `exports["./plugin"]` of a manifest, if it is a path. @throws CommandError if the manifest is not JSON */
async function exportedPlugin(manifest: string): Promise<string | undefined> {
  if (!(await isFile(manifest))) return undefined;
  try {
    const { exports } = JSON.parse(await readFile(manifest, 'utf8')) as { readonly exports?: Readonly<Record<string, unknown>> };
    const plugin = exports?.['./plugin'];
    return typeof plugin === 'string' ? plugin : undefined;
  } catch (cause) {
    throw new CommandError(`${manifest} is not JSON`, exitCodes.usage, { cause });
  }
}

async function pluginsBelow(folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const entry of (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== 'node_modules') {
      const plugin = await pluginOfPackage(path);
      if (plugin !== undefined) found.push(plugin);
    } else if (entry.isFile() && moduleFile.test(entry.name)) {
      const loaded = await loadPlugin(path, undefined);
      if ('plugin' in loaded) found.push(path);
      else if (loaded.fault.code !== 'NotAPlugin') throw new CommandError(describeFault(loaded.fault), exitCodes.usage);
    }
  }
  return found;
}
