import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

// here, because this module is the first one of all programs of the package, before one that an old Node cannot run
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(
    `oarlock needs Node 20.19 or newer; this is ${process.versions.node}.\nInstall a current Node LTS from your system's packages or nodejs.org, then run the command again.`,
  );
  process.exit(1);
}

const file = fileURLToPath(new URL('../bundle/oarlock.cjs', import.meta.url));
/** @type {import('./joined.js').Joined | undefined} */
let known;

/**
 * Returns the bundled program, which the build wrote into one file with V8's code cache beside it: opening and compiling hundreds of modules
 * took most of a cold start.
 */
export function joined() {
  if (known !== undefined || !existsSync(file)) return known;
  const cache = `${file}.${process.versions.v8}.cache`;
  const cachedData = existsSync(cache) ? readFileSync(cache) : undefined;
  // the bundler writes ASCII only
  const script = new Script(readFileSync(file, 'latin1'), { filename: file, ...(cachedData && { cachedData }) });
  // the build runs the program once to write the cache with all code that was compiled
  if (process.env.OARLOCK_WRITE_COMPILE_CACHE === '1') process.on('exit', () => writeFileSync(cache, script.createCachedData()));
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file));
  known = module.exports;
  known.importWith((specifier) => import(specifier));
  return known;
}
