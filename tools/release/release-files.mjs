// The files of a release beside the manifests of the published packages: root manifest, lock file, changelog, and what `npm run sync` derives.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { releaseChangelog } from './changelog.mjs';
import { sections, withVersion } from './manifests.mjs';

/** Returns the text of the lock file with the versions of the manifests in the workspaces. */
export function lockFor(text, manifestOf) {
  const lock = JSON.parse(text);
  lock.version = manifestOf('').version;
  for (const [folder, entry] of Object.entries(lock.packages)) {
    if (folder.includes('node_modules/')) continue;
    const manifest = manifestOf(folder);
    entry.version = manifest.version;
    for (const section of sections)
      for (const name of Object.keys(entry[section] ?? {})) entry[section][name] = manifest[section]?.[name] ?? entry[section][name];
  }
  return `${JSON.stringify(lock, null, 2)}\n`;
}

/** Writes the files, and returns the paths of all changed files; the working tree had no changes before. A dry run only checks that they can be written. */
export async function writeReleaseFiles({ root, version, dryRun }) {
  const read = (file) => readFileSync(join(root, file), 'utf8');
  const changelog = releaseChangelog(read('CHANGELOG.md'), version, new Date().toISOString().slice(0, 10));
  const manifest = withVersion(read('package.json'), version);
  if (dryRun) return [];
  writeFileSync(join(root, 'CHANGELOG.md'), changelog);
  writeFileSync(join(root, 'package.json'), manifest);
  execFileSync(process.execPath, [join(root, 'tools', 'sync-tsconfig.mjs')], { stdio: 'inherit' });
  writeFileSync(
    join(root, 'package-lock.json'),
    lockFor(read('package-lock.json'), (folder) => JSON.parse(read(join(folder, 'package.json')))),
  );
  return execFileSync('git', ['diff', '--name-only'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
}
