// `npm run dependencies [-- --sbom FILE]`: checks the lock file, and writes the bill of materials of the product.
// The lock file decides which code `npm ci` runs, so each entry has a digest, a known license, and no registry host.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { argumentsOf } from '../arguments.mjs';

/** The packages that have install scripts. None of them runs: all installations use `--ignore-scripts`. */
const withInstallScripts = new Map([
  ['esbuild', 'verifies its platform binary, which is an optional package'],
  ['nx', 'warms up its cache'],
  ['protobufjs', 'prints a warning about version schemes'],
]);

/** Licenses that allow use and distribution beside Apache-2.0 code. MPL-2.0 binds the files of the package alone. */
const licenses = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT OR Apache-2.0',
  'MPL-2.0',
  'Python-2.0',
  'Unlicense',
]);

/** Returns the faults of a parsed package-lock.json, one line each. */
export function lockFaults({ packages }) {
  const faults = [];
  for (const [path, entry] of Object.entries(packages)) {
    const at = path.lastIndexOf('node_modules/');
    if (at < 0 || entry.link === true) continue;
    const name = path.slice(at + 'node_modules/'.length);
    if (!(entry.integrity ?? '').startsWith('sha512-')) faults.push(`${path}: no sha512 digest`);
    if (entry.resolved !== undefined) faults.push(`${path}: resolved names a registry host: ${entry.resolved}`);
    if (!licenses.has(entry.license))
      faults.push(`${path}: license ${entry.license ?? 'missing'} is not in the list of tools/checks/dependencies.mjs`);
    if (entry.hasInstallScript === true && !withInstallScripts.has(name))
      faults.push(`${path}: has an install script; add the package with a reason to the list of tools/checks/dependencies.mjs`);
  }
  return faults;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, '..', '..');
  const { '--sbom': sbom } = argumentsOf(
    'npm run dependencies [-- --sbom FILE]\n  --sbom FILE  writes a CycloneDX bill of materials to FILE',
    {
      values: { '--sbom': [] },
    },
  );
  const faults = ['package-lock.json', 'site/package-lock.json', 'packaging/single-file/package-lock.json'].flatMap((file) =>
    lockFaults(JSON.parse(readFileSync(join(root, file), 'utf8'))).map((fault) => `${file}: ${fault}`),
  );
  if (faults.length > 0) {
    console.error(faults.join('\n'));
    process.exit(1);
  }
  if (sbom !== undefined) {
    const { status, stdout, stderr } = spawnSync(
      'npm',
      ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only', '--loglevel=error'],
      { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    if (status !== 0) {
      console.error(`npm sbom failed; it needs an installation made by npm ci:\n${stderr}`);
      process.exit(1);
    }
    writeFileSync(sbom, stdout);
    console.log(`${sbom}: ${JSON.parse(stdout).components.length} components`);
  }
}
