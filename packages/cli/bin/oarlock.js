#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { joined } from './joined.js';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Loads the sources if Node runs with the source condition; otherwise the bundled file, or else the compiled modules. */
async function load() {
  if (process.execArgv.some((arg) => arg.includes('@oarlock/source'))) return import('../src/main.ts');
  const program = joined();
  if (program !== undefined) return program;
  const isPartial = existsSync(here('../../../node_modules/.oarlock-building'));
  if (!isPartial && existsSync(here('../dist/main.js'))) return import('../dist/main.js');
  const problem = isPartial ? 'the build of oarlock was not finished' : 'oarlock is not built yet';
  console.error(`${problem}: run \`npm start\` or \`npm run build\` in the checkout first.`);
  process.exit(1);
}

const { main } = await load();
await main();
