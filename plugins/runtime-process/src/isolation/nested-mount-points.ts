import { closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface NestedMountPoint {
  /** The directory of the node that is mounted above. */
  readonly source: string;
  readonly readonly: boolean;
  /** The path of the mount point in it, relative to it. */
  readonly path: string;
  readonly isDirectory: boolean;
}

/**
 * Creates a mount point in a volume unless it exists, as container runtimes do. The pod may change the volume meanwhile, so each directory is
 * opened without following links and the next name is resolved in the opened directory.
 * @throws NodeJS.ErrnoException `EROFS` if the volume is read-only and has no such mount point; `ELOOP` or `ENOTDIR` if a part of the path is a link
 */
export function createNestedMountPoint({ source, readonly, path, isDirectory }: NestedMountPoint): void {
  const names = relative('/', `/${path}`).split(sep);
  let directory = openSync(source, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    for (const [index, name] of names.entries()) {
      const at = `/proc/self/fd/${directory}/${name}`;
      if (index === names.length - 1 && !isDirectory) {
        closeSync(openFile(at, readonly));
        return;
      }
      const next = openDirectory(at, readonly);
      closeSync(directory);
      directory = next;
    }
  } finally {
    closeSync(directory);
  }
}

function openDirectory(at: string, readonly: boolean): number {
  try {
    return openSync(at, directoryFlags);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if (readonly) throw readOnlyError(at);
  mkdirSync(at, { mode: 0o755 });
  return openSync(at, directoryFlags);
}

function openFile(at: string, readonly: boolean): number {
  const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  try {
    return openSync(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (readonly ? 0 : O_CREAT), 0o644);
  } catch (error) {
    throw readonly && (error as NodeJS.ErrnoException).code === 'ENOENT' ? readOnlyError(dirname(at)) : error;
  }
}

const readOnlyError = (path: string) => Object.assign(new Error(`${path}: read-only file system`), { code: 'EROFS' });
