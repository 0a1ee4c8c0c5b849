#!/usr/bin/env node
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`oarlock needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exit(1);
}
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const joined = here('../bundle/oarlock.cjs');

/** What the build made, in one file, with what V8 made of it before: opening and compiling hundreds of modules was most of a cold start. */
function fromBundle() {
  const cache = `${joined}.${process.versions.v8}.cache`;
  const cachedData = existsSync(cache) ? readFileSync(cache) : undefined;
  // the bundler writes ASCII only
  const code = `(function (exports, require, module, __filename, __dirname) {${readFileSync(joined, 'latin1')}\n})`;
  const script = new Script(code, { filename: joined, ...(cachedData && { cachedData }) });
  // the build runs a command once, for all that it compiled to be there next time
  if (process.env.OARLOCK_WRITE_COMPILE_CACHE === '1') process.on('exit', () => writeFileSync(cache, script.createCachedData()));
  const module = { exports: {} };
  script.runInThisContext()(module.exports, createRequire(joined), module, joined, dirname(joined));
  module.exports.importWith((specifier) => import(specifier));
  return module.exports;
}

/** From source, when started with the source condition; else what the build made: joined into one file, or as compiled. */
async function load() {
  if (process.execArgv.some((arg) => arg.includes('@oarlock/source'))) return import('../src/main.ts');
  if (existsSync(joined)) return fromBundle();
  if (existsSync(here('../dist/main.js'))) return import('../dist/main.js');
  console.error('oarlock is not built yet: run `npm start` or `npm run build` in the checkout first.');
  process.exit(1);
}

const { main } = await load();
await main();
