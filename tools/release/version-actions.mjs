// How `nx release` reads and writes versions here: all packages have one version, and depend on the exact version of each other. Nx's own actions are in
// a package that the repository does not need otherwise.
import { VersionActions } from 'nx/release';
import { sections, withDependencies, withVersion } from './manifests.mjs';
import { writeReleaseFiles } from './release-files.mjs';

/** The version of this release, which Nx does not pass to `afterAllProjectsVersioned`. */
let newVersion;

export default class PackageVersions extends VersionActions {
  validManifestFilenames = ['package.json'];
  excludeManifestsFromFormatting = true;

  #change(tree, change) {
    for (const { manifestPath } of this.manifestsToUpdate) tree.write(manifestPath, change(tree.read(manifestPath, 'utf8')));
  }

  async readCurrentVersionFromSourceManifest(tree) {
    const [{ manifestPath }] = this.manifestsToUpdate;
    return { currentVersion: JSON.parse(tree.read(manifestPath, 'utf8')).version, manifestPath };
  }

  async readCurrentVersionFromRegistry() {
    throw new Error('the current version is that of the manifests: set currentVersionResolver to "disk"');
  }

  async readCurrentVersionOfDependency(tree, _graph, name) {
    const manifest = JSON.parse(tree.read(this.manifestsToUpdate[0].manifestPath, 'utf8'));
    const dependencyCollection = sections.find((section) => manifest[section]?.[name] !== undefined) ?? null;
    return { currentVersion: dependencyCollection && manifest[dependencyCollection][name], dependencyCollection };
  }

  async updateProjectVersion(tree, version) {
    newVersion = version;
    this.#change(tree, (text) => withVersion(text, version));
    return [];
  }

  async updateProjectDependencies(tree, _graph, versions) {
    this.#change(tree, (text) => withDependencies(text, versions));
    return [];
  }
}

/** Writes the files that are not manifests of published packages. Nx adds them to the commit. */
export async function afterAllProjectsVersioned(root, { dryRun = false }) {
  return { changedFiles: await writeReleaseFiles({ root, version: newVersion, dryRun }), deletedFiles: [] };
}
