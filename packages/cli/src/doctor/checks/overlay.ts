import { mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ok, type Check } from './check.ts';
import type { Machine } from './machine.ts';
import { mountNamespace } from './namespaces.ts';

/** Returns the directory, or the nearest one above it that exists. */
export async function existingDirectory(machine: Machine, path: string): Promise<string> {
  for (let at = resolve(path); ; at = dirname(at)) if (dirname(at) === at || (await machine.exists(at))) return at;
}

/** Mounts an overlay where images would be stored, in namespaces that end with the mount. */
async function tryOverlay(machine: Machine, unshare: string, directory: string): Promise<string | undefined> {
  const layers = ['lower', 'upper', 'work', 'merged'].map((name) => join(directory, name));
  for (const layer of layers) await mkdir(layer);
  const [lower, upper, work, merged = ''] = layers;
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}${machine.root ? '' : ',userxattr'}`;
  const mount = ['mount', '-t', 'overlay', '-o', options, 'overlay', merged];
  const { code, problem } = await machine.run(unshare, [...mountNamespace(machine), '--', ...mount]);
  return code === 0 ? undefined : problem;
}

/** How images become root directories of containers without a daemon. */
export const overlay: Check = {
  name: 'overlayfs',
  linux: true,
  async run({ machine, dataDir }) {
    const parent = await existingDirectory(machine, dataDir);
    const unshare = machine.findProgram('unshare');
    const problem = !(await machine.isWritable(parent))
      ? `${parent} is not writable`
      : unshare === undefined
        ? 'unshare is not installed'
        : await machine.withDirectory(parent, (directory) => tryOverlay(machine, unshare, directory));
    if (problem === undefined) return ok(`overlayfs can be mounted in ${parent}`);
    if (machine.findProgram('fuse-overlayfs') !== undefined && (await machine.isWritable('/dev/fuse')))
      return ok(`fuse-overlayfs; overlayfs: ${problem}`);
    return {
      level: 'warn',
      found: `no overlayfs: ${problem}`,
      affects: 'runtime-oci: the image is copied for each container, which takes longer and more disk space.',
      remedy: 'Install fuse-overlayfs, or keep the data directory on ext4 or xfs.',
    };
  },
};
