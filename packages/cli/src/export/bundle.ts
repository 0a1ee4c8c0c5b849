import { dirname, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { conditions } from '@oarlock/cluster/plugin-compiler';
import { CommandError } from '../exit.ts';

const here = dirname(fileURLToPath(import.meta.url));
const ours = /^(?:@oarlock\/|zod$|zod\/)/;
const looked = Symbol('looked');

/** A plugin and the server that answers reviews with it, in one file that needs nothing but node. @throws CommandError with what does not compile */
export async function bundle(source: string): Promise<string> {
  const { build } = await import('esbuild');
  try {
    const result = await build({
      stdin: {
        contents: [
          `import 'reflect-metadata';`,
          `import plugin from ${JSON.stringify(source)};`,
          `import { serve } from '@oarlock/webhook-server/serve';`,
          `serve(plugin).catch((error) => { console.error(error); process.exit(1); });`,
        ].join('\n'),
        resolveDir: here,
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
          name: 'ours',
          setup(run) {
            run.onResolve({ filter: ours }, async ({ path, resolveDir, kind, pluginData }) => {
              if (pluginData === looked) return undefined;
              const found = await run.resolve(path, { resolveDir, kind, pluginData: looked });
              return found.errors.length === 0 ? found : run.resolve(path, { resolveDir: here, kind, pluginData: looked });
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
    throw new CommandError(`${relative(process.cwd(), source)} cannot be made into one file:\n${lines.join('\n')}`);
  }
}
