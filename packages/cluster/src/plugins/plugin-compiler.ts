import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire, isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, extname, isAbsolute, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type * as Esbuild from 'esbuild';
import type { BuildContext, BuildOptions, Message, PartialMessage, PluginBuild } from 'esbuild';

/** A plugin compiled to one JavaScript module that contains the author's files but no packages. */
export interface CompiledPlugin {
  /** Path of the module that Node.js loads. */
  readonly file: string;
  /** Absolute paths of the author's files. A change of one of these files is a new version of the plugin. */
  readonly inputs: readonly string[];
}

/** Errors in the source of a plugin with their positions: `plugin.ts:3:7: Expected "}" but found "const"`. */
export class CompileError extends Error {
  override readonly name = 'CompileError';
  /** Files that the compiler read. A change of one of these files may fix the error. */
  readonly inputs: readonly string[];
  constructor(messages: readonly (Message | PartialMessage)[], inputs: readonly string[]) {
    super(messages.map(describe).join('\n'));
    this.inputs = inputs;
  }
}

/** The compiler, an optional dependency, cannot be found. */
export class CompilerMissing extends CompileError {
  readonly remedy = 'run `npm install --save-dev esbuild`, or name a compiled plugin';
  constructor() {
    super([{ text: 'esbuild is not installed' }], []);
  }
}

function describe({ text = '', location, notes = [] }: Message | PartialMessage): string {
  const at = location ? `${location.file}:${location.line}:${(location.column ?? 0) + 1}: ` : '';
  return [`${at}${text}`, ...notes.filter((note) => note.text !== '').map((note) => `    ${note.text}`)].join('\n');
}

const here = fileURLToPath(import.meta.url);
/** True if this file runs from source; Oarlock's packages are then loaded from source too. */
export const fromSource = extname(here) === '.ts';
export const conditions = fromSource ? ['@oarlock/source'] : [];
const oarlockPackages = /^(?:@oarlock\/|zod$|zod\/)/;
const isFile = /^(?:\.{0,2}\/|file:)/;

let folder: string | undefined;
/** Returns a directory that only the current user can read. The directory is deleted when the process exits. */
function scratchDirectory(): string {
  if (folder !== undefined) return folder;
  removeStaleDirectories();
  const directory = mkdtempSync(join(tmpdir(), `${prefix}${process.pid}-`));
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  folder = directory;
  return directory;
}

const prefix = 'oarlock-plugins-';
const staleMs = 3_600_000;

/** Removes the scratch directories of processes that were killed. */
function removeStaleDirectories(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(/^oarlock-plugins-(\d+)-/.exec(name)?.[1]);
    if (Number.isNaN(pid)) continue;
    const path = join(tmpdir(), name);
    const { uid, mtimeMs } = lstatSync(path, { throwIfNoEntry: false }) ?? {};
    if (uid !== process.getuid?.() || mtimeMs === undefined || Date.now() - mtimeMs < staleMs || isAlive(pid)) continue;
    rmSync(path, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

let versions = 0;

/**
 * Compiles one plugin repeatedly, in a few milliseconds each time, because esbuild caches unchanged files. Resolves packages from the importing file,
 * as Node.js does. Also resolves Oarlock's packages and zod from this installation, so that a plugin needs no node_modules.
 */
export class PluginCompiler {
  readonly #entry: string;
  #context: BuildContext | undefined;
  /** Files that the current compilation has read, recorded even if the compilation fails. */
  readonly #read = new Set<string>();

  constructor(entry: string) {
    this.#entry = entry;
  }

  /** Compiles the plugin. @throws CompileError if the source has errors */
  async compile(): Promise<CompiledPlugin> {
    const { context } = await loadEsbuild();
    this.#context ??= await context(this.#options());
    this.#read.clear();
    this.#read.add(this.#entry);
    const result = await this.#context.rebuild().catch((error: { readonly errors?: readonly Message[] }) => {
      if (error.errors === undefined) throw error;
      throw new CompileError(error.errors, [...this.#read]);
    });
    const [output] = result.outputFiles ?? [];
    if (output === undefined) throw new CompileError([{ text: `${this.#entry} compiles to nothing` }], [...this.#read]);
    const file = join(scratchDirectory(), `${++versions}.js`);
    writeFileSync(file, output.contents, { mode: 0o600 });
    return { file, inputs: Object.keys(result.metafile?.inputs ?? {}).map((path) => join(process.cwd(), path)) };
  }

  async dispose(): Promise<void> {
    await this.#context?.dispose();
    this.#context = undefined;
  }

  #options(): BuildOptions {
    return {
      entryPoints: [this.#entry],
      bundle: true,
      write: false,
      metafile: true,
      format: 'esm',
      platform: 'node',
      target: 'node20.19',
      conditions,
      sourcemap: 'inline',
      sourcesContent: false,
      logLevel: 'silent',
      absWorkingDir: process.cwd(),
      outdir: scratchDirectory(),
      banner: {
        js: `import { createRequire as __from } from 'node:module'; const require = __from(${JSON.stringify(pathToFileURL(this.#entry).href)});`,
      },
      define: { 'import.meta.url': '__itself' },
      plugins: [
        { name: 'packages', setup: (build) => this.#packages(build) },
        { name: 'own-place', setup: (build) => this.#ownPlace(build) },
      ],
    };
  }

  #packages(build: PluginBuild): void {
    build.onResolve({ filter: /.*/ }, async ({ path, resolveDir, kind, pluginData }) => {
      if (pluginData === resolvedOnce || kind === 'entry-point' || isFile.test(path)) return undefined;
      if (isBuiltin(path)) return { path, external: true };
      const found = await build.resolve(path, { resolveDir, kind, pluginData: resolvedOnce });
      const resolved =
        found.errors.length > 0 && oarlockPackages.test(path)
          ? await build.resolve(path, { resolveDir: dirname(here), kind, pluginData: resolvedOnce })
          : found;
      if (resolved.errors.length > 0) {
        const text = `Cannot find ${JSON.stringify(path)}: install it with \`npm install ${packageName(path)}\` in the folder of the plugin`;
        return { errors: [{ text }] };
      }
      return { path: resolved.path, external: true };
    });
  }

  /** Keeps the value of `import.meta.url` of each file, so that a file finds other files beside it. */
  #ownPlace(build: PluginBuild): void {
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }) => {
      this.#read.add(path);
      const text = await readFile(path, 'utf8');
      if (!text.includes('import.meta.url')) return undefined;
      const loader = /\.[cm]?ts$/.test(path) ? 'ts' : path.endsWith('x') ? 'tsx' : 'js';
      return { contents: `const __itself = ${JSON.stringify(pathToFileURL(path).href)};${text}`, loader };
    });
  }
}

const resolvedOnce = Symbol('looked');
const packageName = (path: string): string =>
  path
    .split('/')
    .slice(0, path.startsWith('@') ? 2 : 1)
    .join('/');

/**
 * Loads esbuild, of this installation or of the current directory. An installation of the command alone has none, because only plugins in
 * TypeScript need it. @throws CompileError if it is not installed
 */
export async function loadEsbuild(): Promise<typeof Esbuild> {
  try {
    return await import('esbuild');
  } catch (cause) {
    if (!isMissingModule(cause)) throw cause;
  }
  try {
    return createRequire(join(process.cwd(), 'package.json'))('esbuild') as typeof Esbuild;
  } catch (cause) {
    if (!isMissingModule(cause)) throw cause;
    throw new CompilerMissing();
  }
}

const isMissingModule = (error: unknown): boolean =>
  ['MODULE_NOT_FOUND', 'ERR_MODULE_NOT_FOUND'].includes((error as NodeJS.ErrnoException).code ?? '');

/** Resolves an import from a directory as Node does. Returns the path of the module, or undefined. */
export async function resolveFrom(directory: string, specifier: string): Promise<string | undefined> {
  try {
    const path = createRequire(join(directory, 'package.json')).resolve(specifier);
    return isAbsolute(path) ? path : undefined;
  } catch (error) {
    if (isMissingModule(error)) return undefined;
    // the package may export the module to `import` only
    if ((error as NodeJS.ErrnoException).code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error;
  }
  const { build } = await loadEsbuild();
  let found: string | undefined;
  await build({
    stdin: { contents: '', resolveDir: directory },
    write: false,
    logLevel: 'silent',
    platform: 'node',
    conditions,
    plugins: [
      {
        name: 'resolve',
        setup(run) {
          run.onStart(async () => {
            const answer = await run.resolve(specifier, { resolveDir: directory, kind: 'import-statement' });
            if (answer.errors.length === 0 && !answer.external) found = answer.path;
          });
        },
      },
    ],
  });
  return found;
}
