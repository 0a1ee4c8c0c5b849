import { symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { root } from './oarlock.ts';

/** Writes an example plugin as a package that needs no other. */
export async function writePluginPackage(folder: string): Promise<void> {
  await build({
    entryPoints: [join(root, 'examples', 'plugins', 'admission-required-labels', 'src', 'plugin.ts')],
    outfile: join(folder, 'plugin.js'),
    bundle: true,
    format: 'esm',
    platform: 'node',
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  });
  const manifest = { name: 'admission-required-labels', version: '1.0.0', type: 'module', exports: { './plugin': './plugin.js' } };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
}

/** Builds `src/plugin.ts` of a package with a source map, as its author publishes it. The package finds Oarlock's packages. */
export async function buildPackage(folder: string): Promise<void> {
  await build({
    entryPoints: [join(folder, 'src', 'plugin.ts')],
    outfile: join(folder, 'dist', 'plugin.js'),
    format: 'esm',
    platform: 'node',
    sourcemap: true,
  });
  const manifest = { name: basename(folder), version: '1.0.0', type: 'module', exports: { './plugin': './dist/plugin.js' } };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
}
