import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * Returns the path of a program of this product that runs in a process or thread of its own. The build bundles the programs beside the bundled
 * command; otherwise the path is the module of its package, in TypeScript if the package is not built.
 *
 * @param specifier module of the program, such as `@oarlock/csi-hostpath/main`
 * @param importer `import.meta.url` of the caller
 */
export function programPath(specifier: string, importer: string): string {
  const bundled = fileURLToPath(new URL(`./${bundledProgramName(specifier)}`, importer));
  return existsSync(bundled) ? bundled : createRequire(importer).resolve(specifier);
}

/** Returns the flags of Node for a module in a process or thread of its own: none for JavaScript; TypeScript needs a loader. */
export function loaderFlags(module: string): string[] {
  if (!module.endsWith('.ts')) return [];
  const loader = join(dirname(createRequire(import.meta.url).resolve('@oxc-node/core')), 'register.mjs');
  return ['--conditions=@oarlock/source', '--import', pathToFileURL(loader).href];
}

/** Returns the name of the bundled file of a program: `csi-hostpath-main.mjs` for `@oarlock/csi-hostpath/main`. */
const bundledProgramName = (specifier: string): string => `${specifier.slice('@oarlock/'.length).replaceAll('/', '-')}.mjs`;
