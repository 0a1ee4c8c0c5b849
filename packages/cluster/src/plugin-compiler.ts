import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { BuildContext, BuildOptions, Message, PartialMessage, PluginBuild } from 'esbuild';

/** A plugin's own files in one module: what its author wrote, without the types. Packages stay where they are. */
export interface Compiled {
  /** The module, as JavaScript that Node loads. */
  readonly file: string;
  /** Every file that the author wrote: absolute paths. A change of one of them is a new version of the plugin. */
  readonly inputs: readonly string[];
}

/** What is wrong with the source, each with where: `plugin.ts:3:7: Expected "}" but found "const"`. */
export class CompileError extends Error {
  override readonly name = 'CompileError';
  /** Files that were read: a change of one of them may be the remedy. */
  readonly inputs: readonly string[];
  constructor(messages: readonly (Message | PartialMessage)[], inputs: readonly string[]) {
    super(messages.map(describe).join('\n'));
    this.inputs = inputs;
  }
}

function describe({ text = '', location, notes = [] }: Message | PartialMessage): string {
  const at = location ? `${location.file}:${location.line}:${(location.column ?? 0) + 1}: ` : '';
  return [`${at}${text}`, ...notes.filter((note) => note.text !== '').map((note) => `    ${note.text}`)].join('\n');
}

const here = fileURLToPath(import.meta.url);
/** Ours runs from source exactly when this file does. */
export const fromSource = extname(here) === '.ts';
export const conditions = fromSource ? ['@oarlock/source'] : [];
const ours = /^(?:@oarlock\/|zod$|zod\/)/;
const isFile = /^(?:\.{0,2}\/|file:)/;

let folder: string | undefined;
/** Only this user reads it, and it goes with the process. */
function scratch(): string {
  if (folder !== undefined) return folder;
  sweep();
  const made = mkdtempSync(join(tmpdir(), `${prefix}${process.pid}-`));
  writeFileSync(join(made, 'package.json'), '{"type":"module"}');
  process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  folder = made;
  return made;
}

const prefix = 'oarlock-plugins-';
const forgottenMs = 3_600_000;

/** Processes that were killed left theirs behind. */
function sweep(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(/^oarlock-plugins-(\d+)-/.exec(name)?.[1]);
    if (Number.isNaN(pid)) continue;
    const path = join(tmpdir(), name);
    const { uid, mtimeMs } = lstatSync(path, { throwIfNoEntry: false }) ?? {};
    if (uid !== process.getuid?.() || mtimeMs === undefined || Date.now() - mtimeMs < forgottenMs || alive(pid)) continue;
    rmSync(path, { recursive: true, force: true });
  }
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

let versions = 0;

/**
 * Compiles one plugin again and again, in a few milliseconds each time: it keeps what did not change.
 * Packages are found from the file that imports them, as Node would; Oarlock's own and zod also from where Oarlock is, so that a plugin may
 * lie in a folder with nothing else in it.
 */
export class PluginCompiler {
  readonly #entry: string;
  #context: BuildContext | undefined;
  /** What was read in the present run, also by one that fails. */
  readonly #read = new Set<string>();

  constructor(entry: string) {
    this.#entry = entry;
  }

  /** @throws CompileError */
  async compile(): Promise<Compiled> {
    const { context } = await import('esbuild'); // only who writes TypeScript waits for it
    this.#context ??= await context(this.#options());
    this.#read.clear();
    this.#read.add(this.#entry);
    const result = await this.#context.rebuild().catch((error: { readonly errors?: readonly Message[] }) => {
      if (error.errors === undefined) throw error;
      throw new CompileError(error.errors, [...this.#read]);
    });
    const [output] = result.outputFiles ?? [];
    if (output === undefined) throw new CompileError([{ text: `${this.#entry} compiles to nothing` }], [...this.#read]);
    const file = join(scratch(), `${++versions}.js`);
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
      outdir: scratch(),
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
      if (pluginData === looked || kind === 'entry-point' || isFile.test(path)) return undefined;
      if (isBuiltin(path)) return { path, external: true };
      const found = await build.resolve(path, { resolveDir, kind, pluginData: looked });
      const meant =
        found.errors.length > 0 && ours.test(path)
          ? await build.resolve(path, { resolveDir: dirname(here), kind, pluginData: looked })
          : found;
      if (meant.errors.length > 0) {
        const text = `Cannot find ${JSON.stringify(path)}: install it beside the plugin, \`npm install ${nameOf(path)}\``;
        return { errors: [{ text }] };
      }
      return { path: meant.path, external: true };
    });
  }

  /** A file still finds what lies beside it. */
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

const looked = Symbol('looked');
const nameOf = (path: string): string =>
  path
    .split('/')
    .slice(0, path.startsWith('@') ? 2 : 1)
    .join('/');

/** Where a module is that a file of `directory` names, or undefined: as Node resolves an import there. */
export async function resolveFrom(directory: string, specifier: string): Promise<string | undefined> {
  const { build } = await import('esbuild');
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
