// Joins what the compiler made into few files: opening some hundred modules was more than half of a cold start.
// Plugins of others import our packages as compiled; slots and errors are known by name, so that both copies agree.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'packages', 'cli', 'bundle');
// what a package that is no more has left behind is not built
const isBuilt = (group, name, module) =>
  existsSync(join(root, group, name, 'package.json')) && existsSync(join(root, group, name, 'dist', `${module}.js`));

/** @throws what esbuild could not do, with its messages */
export async function bundle() {
  const { build } = await import('esbuild'); // not there before the packages are
  const modules = ['packages', 'plugins'].flatMap((group) =>
    readdirSync(join(root, group)).flatMap((name) =>
      ['plugin', 'builtin'].filter((module) => isBuilt(group, name, module)).map((module) => `@oarlock/${name}/${module}`),
    ),
  );
  const contents = [
    `import 'reflect-metadata';`,
    `import { bundled } from '@oarlock/cluster/plugin-loader';`,
    ...modules.map((name) => `bundled.set('${name}', () => import('${name}'));`),
    `await import('@oarlock/cli/main');`,
  ].join('\n');
  rmSync(out, { recursive: true, force: true });
  await build({
    stdin: { contents, resolveDir: join(root, 'packages', 'cli'), sourcefile: 'oarlock.js' },
    outdir: out,
    entryNames: 'oarlock',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    mainFields: ['module', 'main'],
    // patches what is global, and would be a copy in every chunk; the others are only there for who develops
    external: ['reflect-metadata', '@oxc-node/core', 'pino-pretty'],
    banner: { js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);" },
    logLevel: 'silent',
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
