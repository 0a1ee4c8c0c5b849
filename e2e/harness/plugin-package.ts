import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
