#!/usr/bin/env node
import { existsSync } from 'node:fs';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`oarlock needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exit(1);
}
// from source, when started with the source condition; else what the build made: joined into few files, or as compiled
const source = process.execArgv.some((arg) => arg.includes('@oarlock/source'));
const entry = (source ? ['../src/main.ts'] : ['../bundle/oarlock.js', '../dist/main.js'])
  .map((path) => new URL(path, import.meta.url))
  .find((url) => existsSync(url));
if (entry === undefined) {
  console.error('oarlock is not built yet: run `npm start` or `npm run build` in the checkout first.');
  process.exit(1);
}
await import(entry.href);
