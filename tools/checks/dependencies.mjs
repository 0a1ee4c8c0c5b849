// `npm run dependencies [-- --sbom FILE]`: checks the lock files and the workflows, and writes the bill of materials of the product.
// The lock file decides which code `npm ci` runs, so each entry has a digest, a known license, and no registry host. `npm ci` itself does not notice
// a workspace whose entry differs from its package.json.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
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
  'MPL-2.0',
  'Python-2.0',
  'Unlicense',
  'WTFPL',
]);

/** Returns true if the list has one of the licenses between which an expression such as `(WTFPL OR MIT)` leaves the choice. */
const isAllowed = (expression = '') =>
  expression
    .replace(/^\(|\)$/g, '')
    .split(' OR ')
    .some((license) => licenses.has(license));

/** Returns the faults of a parsed package-lock.json, one line each. */
export function lockFaults({ packages }) {
  const faults = [];
  for (const [path, entry] of Object.entries(packages)) {
    const at = path.lastIndexOf('node_modules/');
    if (at < 0 || entry.link === true) continue;
    const name = path.slice(at + 'node_modules/'.length);
    if (!(entry.integrity ?? '').startsWith('sha512-')) faults.push(`${path}: no sha512 digest`);
    if (entry.resolved !== undefined) faults.push(`${path}: resolved names a registry host: ${entry.resolved}`);
    if (!isAllowed(entry.license))
      faults.push(`${path}: license ${entry.license ?? 'missing'} is not in the list of tools/checks/dependencies.mjs`);
    if (entry.hasInstallScript === true && !withInstallScripts.has(name))
      faults.push(`${path}: has an install script; add the package with a reason to the list of tools/checks/dependencies.mjs`);
  }
  return faults;
}

/** Returns the actions of a workflow that do not name a commit: the owner of an action can move its tags and branches. */
export function workflowFaults(text) {
  return Array.from(text.matchAll(/^\s*(?:-\s+)?uses:\s*(\S+)/gm), ([, action]) => action)
    .filter((action) => !/^[\w./-]+@[0-9a-f]{40}$/.test(action))
    .map((action) => `${action}: the action does not name a commit`);
}

/** The fields of a package.json that the lock file repeats for each workspace. */
const repeated = ['name', 'version', 'dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'peerDependenciesMeta'];

function fieldFaults(at, field, locked, stated) {
  if (isDeepStrictEqual(locked, stated)) return [];
  const shown = (value) => (value === undefined ? 'missing' : JSON.stringify(value));
  const isList = [locked, stated].every((value) => value === undefined || typeof value === 'object');
  if (!isList) return [`${at}: ${field} is ${shown(locked)} in the lock file and ${shown(stated)} in package.json`];
  const names = [...new Set([...Object.keys(locked ?? {}), ...Object.keys(stated ?? {})])].sort();
  return names
    .filter((name) => !isDeepStrictEqual(locked?.[name], stated?.[name]))
    .map((name) => `${at}: ${field} ${name} is ${shown(locked?.[name])} in the lock file and ${shown(stated?.[name])} in package.json`);
}

/** Returns the differences between the entries of workspaces in a parsed package-lock.json and the manifests, by folder; the root is ''. */
export function workspaceFaults({ packages }, manifests) {
  const faults = Object.keys(packages)
    .filter((path) => !path.includes('node_modules/') && !manifests.has(path))
    .map((path) => `${path}: the lock file has a workspace without a package.json`);
  for (const [folder, manifest] of manifests) {
    const at = folder === '' ? 'the root' : folder;
    const entry = packages[folder];
    if (entry === undefined) faults.push(`${at}: the workspace is missing in the lock file`);
    else faults.push(...repeated.flatMap((field) => fieldFaults(at, field, entry[field], manifest[field])));
    const link = packages[`node_modules/${manifest.name}`];
    if (folder !== '' && link?.resolved !== folder)
      faults.push(`${at}: node_modules/${manifest.name} of the lock file does not link to it`);
  }
  return faults;
}

/** Returns the manifests of a folder and of its workspaces. */
function manifestsIn(folder) {
  const read = (path) => JSON.parse(readFileSync(join(folder, path, 'package.json'), 'utf8'));
  const manifest = read('');
  const folders = (manifest.workspaces ?? []).flatMap((pattern) => {
    const group = pattern.replace(/\/\*$/, '');
    return readdirSync(join(folder, group)).map((name) => `${group}/${name}`);
  });
  const workspaces = folders.filter((path) => existsSync(join(folder, path, 'package.json')));
  return new Map([['', manifest], ...workspaces.map((path) => [path, read(path)])]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, '..', '..');
  const { '--sbom': sbom } = argumentsOf(
    'npm run dependencies [-- --sbom FILE]\n  --sbom FILE  writes a CycloneDX bill of materials to FILE',
    {
      values: { '--sbom': [] },
    },
  );
  let stale = false;
  const locks = ['.', 'site', 'packaging/single-file', 'e2e/programs'].map((folder) => join(folder, 'package-lock.json'));
  const faults = locks.flatMap((file) => {
    const lock = JSON.parse(readFileSync(join(root, file), 'utf8'));
    const differences = workspaceFaults(lock, manifestsIn(join(root, dirname(file))));
    stale ||= differences.length > 0;
    return [...lockFaults(lock), ...differences].map((fault) => `${file}: ${fault}`);
  });
  const workflows = join(root, '.github', 'workflows');
  for (const name of readdirSync(workflows))
    faults.push(...workflowFaults(readFileSync(join(workflows, name), 'utf8')).map((fault) => `.github/workflows/${name}: ${fault}`));
  if (faults.length > 0) {
    console.error(faults.join('\n'));
    if (stale) console.error('Run `npm install --package-lock-only --ignore-scripts` in the folder of the lock file.');
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
