// Bundles the compiled packages into one file and stores V8's code cache beside it: loading hundreds of modules was most of a cold start.
// External plugins import the compiled packages; slots and errors are identified by name, so both copies work together.
import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildPage, pageFolder } from './console-page.mjs';
import { run } from './setup.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'packages', 'cli', 'bundle');
// output of a removed package is not bundled
const isBuilt = (group, name, module) =>
  existsSync(join(root, group, name, 'package.json')) && existsSync(join(root, group, name, 'dist', `${module}.js`));

/** The programs that run in processes of their own, each bundled alone, because a small program starts sooner. */
const programs = [
  '@oarlock/runtime-process/supervisor',
  '@oarlock/runtime-oci/supervisor',
  '@oarlock/csi-hostpath/main',
  '@oarlock/oci/layers/tree-worker',
  '@oarlock/cli/nodes/rootless/uplink',
];
// as programPath of @oarlock/primitives/os/bundled-program finds them
const programName = (specifier) => `${specifier.slice('@oarlock/'.length).replaceAll('/', '-')}.mjs`;

/**
 * Bundles into `packages/cli/bundle`, or into another folder without the code cache, which depends on the version of Node.
 * @throws the errors of esbuild
 */
export async function bundle({ outdir = out, minify = false } = {}) {
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
    `import { bundled, loadModule } from '@oarlock/cluster/plugins/plugin-loader';`,
    `export { importWith, loadModule } from '@oarlock/cluster/plugins/plugin-loader';`,
    ...modules.map((name) => `bundled.set('${name}', () => import('${name}'));`),
    `export { main } from '@oarlock/cli/main';`,
    `export { startTestCluster } from '@oarlock/testing/test-cluster';`,
    `import { runPluginThread as run } from '@oarlock/cluster/hosting/thread/run-plugin-thread';`,
    `export const runPluginThread = () => run(loadModule);`,
    `export { runWorker } from '@oarlock/cluster/workers/run-worker';`,
  ].join('\n');
  rmSync(outdir, { recursive: true, force: true });
  await build({
    stdin: { contents, resolveDir: join(root, 'packages', 'cli'), sourcefile: 'oarlock.js' },
    outfile: join(outdir, 'oarlock.cjs'),
    minifyWhitespace: minify,
    minifySyntax: minify,
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
  for (const specifier of programs)
    await build({
      stdin: { contents: `import '${specifier}';`, resolveDir: join(root, 'packages', 'cli'), sourcefile: 'program.js' },
      outfile: join(outdir, programName(specifier)),
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'node20.19',
      charset: 'ascii',
      minifyWhitespace: minify,
      minifySyntax: minify,
      mainFields: ['module', 'main'],
      banner: { js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);" },
      logLevel: 'silent',
    });
  // a thread takes its plugin from the bundled program
  writeFileSync(
    join(outdir, programName('@oarlock/cluster/hosting/thread/thread-main')),
    `import { joined } from '../bin/joined.js';\nawait joined().runPluginThread();\n`,
  );
  writeFileSync(
    join(outdir, programName('@oarlock/cluster/workers/worker-main')),
    `import { joined } from '../bin/joined.js';\nawait joined().runWorker();\n`,
  );
  // as PageFiles of @oarlock/console finds it
  const ownPage = join(outdir, 'console-page');
  if (outdir !== out) return buildPage(ownPage);
  await buildPage();
  cpSync(pageFolder, ownPage, { recursive: true });
  await writeCodeCache();
}

/** Writes V8's code cache beside a bundle, by running it. The cache is for one version of Node only. */
export async function writeCodeCache({ node = process.execPath, joined = join(root, 'packages', 'cli', 'bin', 'joined.js') } = {}) {
  const { code, output } = await run(
    node,
    [join(root, 'tools', 'warm-up.mjs'), 'config', 'validate', '-f', join(root, 'clusters', 'embedded.yaml')],
    { env: { ...process.env, OARLOCK_WRITE_COMPILE_CACHE: '1', OARLOCK_JOINED: pathToFileURL(joined).href } },
  );
  if (code !== 0) throw new Error(`the bundle does not run:\n${output}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
