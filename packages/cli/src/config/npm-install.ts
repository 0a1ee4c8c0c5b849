import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { CommandError, exitCodes } from '../common/command-error.ts';

const registryName = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(?:@[\w.^~<>=*+-]+)?$/;
const packageName = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/;
const maxOutput = 64 * 1024;
const manifests = ['package.json', 'package-lock.json'] as const;

export interface PackageSpec {
  /** The argument of `npm install`. */
  readonly install: string;
  /** The name under which the package is imported; of a folder, that of its manifest. */
  readonly name: string;
}

/** Parses a name of the registry, optionally with a version or tag, or the path of a folder. @throws CommandError if it is neither */
export async function packageSpec(text: string): Promise<PackageSpec> {
  if (text.startsWith('.') || isAbsolute(text)) {
    const manifest = join(resolve(text), 'package.json');
    if (!existsSync(manifest)) throw new CommandError(`${text} is no folder of a package: ${manifest} does not exist`, exitCodes.usage);
    const { name } = JSON.parse(await readFile(manifest, 'utf8')) as { readonly name?: unknown };
    if (typeof name !== 'string') throw new CommandError(`${manifest} has no name`, exitCodes.usage);
    // it becomes an argument of npm, the path of an import and a value of the cluster file
    if (!packageName.test(name))
      throw new CommandError(`${manifest}: ${JSON.stringify(name)} is no name of an npm package`, exitCodes.usage);
    return { install: resolve(text), name };
  }
  if (!registryName.test(text))
    throw new CommandError(`${JSON.stringify(text)} is no name of an npm package, optionally with @VERSION`, exitCodes.usage);
  return { install: text, name: text.replace(/(?<=.)@.*$/, '') };
}

/** Runs npm in a folder, without install scripts. @throws CommandError with the output of npm if it fails */
async function npm(folder: string, args: readonly string[]): Promise<void> {
  const child = spawn('npm', [...args, '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-maxOutput);
    });
  const [code] = (await once(child, 'close').catch((cause: unknown) => {
    throw new CommandError('npm could not be started: install it, or add the package with another package manager', exitCodes.failed, {
      cause,
    });
  })) as [number | null];
  if (code !== 0) throw new CommandError(`npm ${args.join(' ')} failed:\n${output.trim()}`);
}

/** An installation that can be undone. */
export interface Installation {
  /** Restores the manifests and node_modules. @throws CommandError if npm fails */
  undo(): Promise<void>;
  /** Removes the copies of the manifests. */
  keep(): Promise<void>;
}

/** Installs a package into a folder. @throws CommandError if npm fails; the folder is then as before */
export async function installPackage(folder: string, spec: PackageSpec): Promise<Installation> {
  const copies = await mkdtemp(join(tmpdir(), 'oarlock-add-'));
  const existed = new Map([...manifests, 'node_modules'].map((name) => [name, existsSync(join(folder, name))]));
  for (const name of manifests) if (existed.get(name) === true) await copyFile(join(folder, name), join(copies, name));
  const keep = () => rm(copies, { recursive: true, force: true });
  const undo = async () => {
    for (const name of manifests)
      if (existed.get(name) === true) await copyFile(join(copies, name), join(folder, name));
      else await rm(join(folder, name), { force: true });
    if (existed.get('node_modules') !== true) await rm(join(folder, 'node_modules'), { recursive: true, force: true });
    else if (existed.get('package.json') === true)
      await npm(folder, ['install', ...(existed.get('package-lock.json') === true ? [] : ['--no-package-lock'])]);
    else await npm(folder, ['uninstall', '--no-save', spec.name]);
    await keep();
  };
  try {
    await npm(folder, ['install', '--save', spec.install]);
  } catch (error) {
    await undo();
    throw error;
  }
  return { undo, keep };
}
