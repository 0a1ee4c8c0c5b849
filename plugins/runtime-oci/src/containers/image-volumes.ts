import { mkdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import type { RootFilesystem } from '@oarlock/oci/snapshotter';
import { mountRoot } from '@oarlock/oci/snapshots/mount-root';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import type { PreparedContainer } from '../spec/prepared-container.ts';
import { findInLayers, overlayLayers, resolveInRoot, statAt } from '../spec/root-files.ts';

/** Where an image volume is mounted, by the index of the mount. */
export const volumeDirectory = (directory: string, index: string) => join(directory, `volume-${index}`);

/**
 * Mounts image volumes; without `mountsRoots` the container mounts them itself (`volumeMounts`). Returns the paths of the directories or files by the
 * index of the mount.
 */
export async function mountVolumes(
  { mounts }: ContainerConfig,
  { volumes }: PreparedContainer,
  { directory, mountsRoots }: { readonly directory: string; readonly mountsRoots: boolean },
): Promise<Readonly<Record<string, string>>> {
  const paths = await Promise.all(
    Object.entries(volumes).map(async ([index, root]): Promise<[string, string]> => {
      const subPath = mounts[Number(index)]?.imageSubPath ?? '';
      const target = volumeDirectory(directory, index);
      if (!mountsRoots && root.mount !== undefined) return [index, unmountedPath(root.mount, { target, subPath })];
      const path = resolveInRoot(await mountRoot(root, target), subPath);
      if (path === undefined || !statAt(path)) throw absent(subPath);
      return [index, path];
    }),
  );
  return Object.fromEntries(paths);
}

/** Returns the arguments of the script `makeRoot` that mount image volumes. */
export function volumeMounts({ volumes }: PreparedContainer, directory: string): readonly string[] {
  return Object.entries(volumes).flatMap(([index, { mount }]) =>
    mount === undefined ? [] : ['volume', volumeDirectory(directory, index), mount.directory, mount.options.join(',')],
  );
}

/** Returns a path of a volume that the container mounts. The script follows links on the node, so the path must have none. */
function unmountedPath(
  { type, options, directory }: NonNullable<RootFilesystem['mount']>,
  { target, subPath }: { readonly target: string; readonly subPath: string },
): string {
  if (type === 'fuse-overlayfs')
    throw new SupervisorError('Unsupported', 'image volumes with fuse-overlayfs are not supported for containers of an ordinary user');
  const inside = posix.join('/', subPath);
  const found = findInLayers(overlayLayers(options, directory), inside);
  if (found === 'link')
    throw new SupervisorError('Unsupported', `links in the path ${JSON.stringify(subPath)} of an image volume need root`);
  if (found === 'absent') throw absent(subPath);
  mkdirSync(target, { recursive: true, mode: 0o755 });
  return join(target, inside);
}

const absent = (subPath: string) => new SupervisorError('InvalidArgument', `the image has no path ${JSON.stringify(subPath)}`);
