import { existsSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { conditions, loadEsbuild } from '@oarlock/cluster/plugins/plugin-compiler';
import { CommandError } from '../common/command-error.ts';

const here = dirname(fileURLToPath(import.meta.url));
/** True in the published package, which contains no modules: the packages come from the plugin's own installation. */
const installed = basename(here) === 'bundle' && !existsSync(join(here, '..', 'src'));
const oarlockPackages = /^(?:@oarlock\/|zod$|zod\/)/;
const resolvedOnce = Symbol('resolvedOnce');

/** The modules that run exported plugins, below `@oarlock/`. */
export type ServeModule = 'webhook-server/serve' | 'component-server/serve-controller' | 'component-server/serve-scheduler';

/**
 * Bundles a plugin and the module that runs it into one file that requires only Node.js.
 * @throws CommandError with the compiler's errors if it fails
 */
export async function bundle(source: string, serveModule: ServeModule): Promise<string> {
  const { build } = await loadEsbuild();
  try {
    const result = await build({
      stdin: {
        contents: [
          `import 'reflect-metadata';`,
          `import plugin from ${JSON.stringify(source)};`,
          `import { serve } from '@oarlock/${serveModule}';`,
          `serve(plugin).catch((error) => { console.error(error); process.exit(1); });`,
        ].join('\n'),
        // a plugin that is part of the command has no path: its package may be installed in the current directory
        resolveDir: installed ? (isAbsolute(source) ? dirname(source) : process.cwd()) : here,
        sourcefile: 'server.js',
      },
      bundle: true,
      write: false,
      format: 'cjs',
      platform: 'node',
      target: 'node20.19',
      charset: 'ascii',
      conditions,
      mainFields: ['module', 'main'],
      legalComments: 'none',
      minifySyntax: true,
      define: { 'import.meta.url': 'serverUrl' },
      banner: { js: "const serverUrl = require('node:url').pathToFileURL(__filename).href;" },
      logLevel: 'silent',
      plugins: [
        {
          // a plugin without node_modules of its own gets the packages of this installation
          name: 'oarlock-packages',
          setup(run) {
            run.onResolve({ filter: oarlockPackages }, async ({ path, resolveDir, kind, pluginData }) => {
              if (pluginData === resolvedOnce) return undefined;
              const found = await run.resolve(path, { resolveDir, kind, pluginData: resolvedOnce });
              return found.errors.length === 0 ? found : run.resolve(path, { resolveDir: here, kind, pluginData: resolvedOnce });
            });
          },
        },
      ],
    });
    return result.outputFiles[0]?.text ?? '';
  } catch (error) {
    const { errors } = error as {
      readonly errors?: readonly { readonly text: string; readonly location?: { file: string; line: number; column: number } | null }[];
    };
    if (errors === undefined) throw error;
    const lines = errors.map(({ text, location }) =>
      location ? `${location.file}:${location.line}:${location.column + 1}: ${text}` : text,
    );
    const missing = missingPackages(errors.map(({ text }) => text));
    const hint = missing.length === 0 ? '' : `\nInstall what is missing beside the plugin: npm install --save-dev ${missing.join(' ')}`;
    throw new CommandError(
      `${isAbsolute(source) ? relative(process.cwd(), source) : source} cannot be bundled:\n${lines.join('\n')}${hint}`,
    );
  }
}

/** Returns the packages that messages of the compiler report as missing, such as `Could not resolve "@oarlock/spi/audit"`. */
export function missingPackages(messages: readonly string[]): readonly string[] {
  const names = messages.flatMap((message) => {
    const [, path = ''] = /^Could not resolve "([^"]+)"/.exec(message) ?? [];
    const [, name = ''] = /^((?:@[a-z0-9._-]+\/)?[a-z0-9][a-z0-9._-]*)(?:\/|$)/.exec(path) ?? [];
    return name === '' ? [] : [name];
  });
  return [...new Set(names)].sort();
}
