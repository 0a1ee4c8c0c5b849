import { readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/** A line of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export interface MountEntry {
  /** `major:minor` of the file system. */
  readonly device: string;
  /** The directory of the file system that is mounted. */
  readonly root: string;
  readonly mountPoint: string;
  /** False if the mount or its file system is read-only. */
  readonly writable: boolean;
  /** The options of the mount, without those of its file system. */
  readonly options: readonly string[];
}

/** Reads the mounts of this process. Empty if the system has no mountinfo. */
export function readMountTable(): readonly MountEntry[] {
  try {
    return parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export function parseMountTable(text: string): readonly MountEntry[] {
  const unescape = (field = '') => field.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)));
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [before = '', after = ''] = line.split(' - ');
      const [, , device = '', root, mountPoint, options = ''] = before.split(' ');
      const superOptions = after.split(' ')[2] ?? '';
      const isWritable = (list: string) => list.split(',').includes('rw');
      return {
        device,
        root: unescape(root),
        mountPoint: unescape(mountPoint),
        writable: isWritable(options) && isWritable(superOptions),
        options: options.split(','),
      };
    });
}

/** Returns the flags that a bind mount of the path inherits and that must be kept when it is remounted. */
export function lockedFlags(path: string, table: readonly MountEntry[]): readonly string[] {
  let found: MountEntry | undefined;
  for (const entry of table)
    if (isWithin(path, entry.mountPoint) && entry.mountPoint.length >= (found?.mountPoint.length ?? 0)) found = entry;
  return ['nosuid', 'nodev', 'noexec'].filter((flag) => found?.options.includes(flag));
}

/** Returns true if `path` is `directory` or below it. Both are absolute and normalized. */
export function isWithin(path: string, directory: string): boolean {
  return path === directory || directory === '/' || path.startsWith(`${directory}/`);
}

/**
 * Returns the other paths at which the content of a directory is visible because its file system, or a part of it, is also mounted elsewhere
 * (bind mounts, btrfs top levels, the `/sysroot` of image-based systems). `path` is a real path.
 */
export function aliasesOf(path: string, table: readonly MountEntry[]): readonly string[] {
  const own = table.filter(({ mountPoint }) => isWithin(path, mountPoint)).sort((a, b) => a.mountPoint.length - b.mountPoint.length);
  const home = own.at(-1);
  if (!home) return [];
  const inFileSystem = join(home.root, relative(home.mountPoint, path));
  const aliases = new Set<string>();
  for (const { device, root, mountPoint } of table) {
    if (device !== home.device) continue;
    if (isWithin(inFileSystem, root)) {
      const alias = join(mountPoint, relative(root, inFileSystem));
      if (alias !== path && isSameDirectory(alias, path)) aliases.add(alias);
    } else if (isWithin(root, inFileSystem) && !isWithin(mountPoint, path)) aliases.add(mountPoint);
  }
  return [...aliases];
}

function isSameDirectory(a: string, b: string): boolean {
  try {
    const [one, other] = [statSync(a), statSync(b)];
    return one.dev === other.dev && one.ino === other.ino;
  } catch {
    return false; // not accessible to this user, so neither to its pods
  }
}
