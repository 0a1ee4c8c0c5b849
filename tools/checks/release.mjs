// Checks that `nx release` can run: in a dry run every published package gets the same version, and its published manifest has exact versions of packages of
// this repository and caret or exact ranges of others.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publishable, publishedManifest, publishedName } from '../pack.mjs';
import { withDependencies, withVersion } from '../release/manifests.mjs';
import { root } from '../setup.mjs';

const sections = ['dependencies', 'peerDependencies', 'optionalDependencies'];
const number = String.raw`(0|[1-9]\d*)`;
const allowedRange = new RegExp(String.raw`^\^?${number}(\.${number}(\.${number}(-[0-9A-Za-z.-]+)?)?)?$`);

/**
 * Returns the faults of a release: of the versions that packages would get, by name, and of manifests to publish, from the packages in the repository.
 *
 * @param packages folder and text of the manifest of each published package
 */
export function releaseFaults(packages, versions) {
  const names = packages.map(({ text }) => JSON.parse(text).name);
  const [version] = Object.values(versions);
  const faults = [
    ...names.filter((name) => versions[name] === undefined).map((name) => `${name} is published, but nx release gives it no version`),
    ...Object.keys(versions)
      .filter((name) => !names.includes(name))
      .map((name) => `${name} gets a version, but is not published`),
    ...Object.entries(versions)
      .filter(([, own]) => own !== version)
      .map(([name, own]) => `${name} gets version ${own} instead of ${version}`),
  ];
  for (const { folder, text } of packages) {
    const manifest = publishedManifest(JSON.parse(withDependencies(withVersion(text, versions[JSON.parse(text).name]), versions)), folder);
    if (manifest.version !== version) faults.push(`${folder} has version ${manifest.version} instead of ${version}`);
    for (const [name, range] of sections.flatMap((section) => Object.entries(manifest[section] ?? {}))) {
      const own = [version, `npm:${publishedName(name)}@${version}`];
      if (names.includes(name) ? !own.includes(range) : !allowedRange.test(range))
        faults.push(`${folder}: dependency ${name} has the range ${range}`);
    }
  }
  return faults;
}

/** Returns the versions that `nx release patch` would give, by package. */
async function dryRunVersions() {
  const { release } = await import('nx/release');
  const { projectsVersionData } = await release({ specifier: 'patch', dryRun: true, skipPublish: true });
  return Object.fromEntries(Object.entries(projectsVersionData).map(([name, { newVersion }]) => [name, newVersion]));
}

if (import.meta.filename === process.argv[1]) {
  process.env.NX_DAEMON = 'false';
  const packages = publishable().map((folder) => ({ folder, text: readFileSync(join(root, folder, 'package.json'), 'utf8') }));
  const faults = releaseFaults(packages, await dryRunVersions());
  if (faults.length > 0) {
    console.error(faults.join('\n'));
    process.exit(1);
  }
  console.log(`${packages.length} packages would be released`);
}
