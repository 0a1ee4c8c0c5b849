// Bundles the compiled packages into one file and stores V8's code cache beside it: loading hundreds of modules was most of a cold start.
// External plugins import the compiled packages; slots and errors are identified by name, so both copies work together.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './setup.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'packages', 'cli', 'bundle');
// output of a removed package is not bundled
const isBuilt = (group, name, module) =>
  existsSync(join(root, group, name, 'package.json')) && existsSync(join(root, group, name, 'dist', `${module}.js`));

/** @throws the errors of esbuild */
export async function bundle() {
  const { build } = await import('esbuild'); // does not exist before the packages are built
  const modules = ['packages', 'plugins'].flatMap((group) =>
    readdirSync(join(root, group)).flatMap((name) =>
      ['plugin', 'builtin', 'plugins/registry']
        .filter((module) => isBuilt(group, name, module))
        .map((module) => `@oarlock/${name}/${module}`),
    ),
  );
  const contents = [
    `import 'reflect-metadata';`,
    `import { bundled } from '@oarlock/cluster/plugins/plugin-loader';`,
    `export { importWith } from '@oarlock/cluster/plugins/plugin-loader';`,
    ...modules.map((name) => `bundled.set('${name}', () => import('${name}'));`),
    `export { main } from '@oarlock/cli/main';`,
    `export { startTestCluster } from '@oarlock/testing/test-cluster';`,
  ].join('\n');
  rmSync(out, { recursive: true, force: true });
  await build({
    stdin: { contents, resolveDir: join(root, 'packages', 'cli'), sourcefile: 'oarlock.js' },
    outfile: join(out, 'oarlock.cjs'),
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'node20.19',
    charset: 'ascii',
    mainFields: ['module', 'main'],
    // one package patches globals; the others are only needed in development
    external: ['reflect-metadata', 'esbuild', '@oxc-node/core', 'pino-pretty'],
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': 'bundleUrl' },
    // a function instead of a string: a template of megabytes would be copied at each start
    banner: {
      js: "(function (exports, require, module, __filename, __dirname) { const bundleUrl = require('node:url').pathToFileURL(__filename).href;",
    },
    footer: { js: '})' },
    logLevel: 'silent',
  });
  const { code, output } = await run(
    process.execPath,
    [join(root, 'tools', 'warm-up.mjs'), 'config', 'validate', '-f', join(root, 'clusters', 'embedded.yaml')],
    { env: { ...process.env, OARLOCK_WRITE_COMPILE_CACHE: '1' } },
  );
  if (code !== 0) throw new Error(`the bundle does not run:\n${output}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
