import { chmod, chown, lstat } from 'node:fs/promises';
import { changeOwnerOfLink, withOpenedEntry, type OpenedEntry } from './opened-entry.ts';
import { canChangeOwner } from './user-namespace.ts';

const readWrite = 0o660;
const readOnly = 0o440;
const directoryBits = 0o2110; // setgid: new files inherit the group; and the group may enter

/**
 * Sets the group of a directory tree. The group may read the files and, unless `readonly`, write them. Does not follow symbolic links, also if another process
 * replaces names meanwhile. Does nothing if the process may not change owners.
 */
export async function setGroupOwnership(
  path: string,
  group: number,
  { readonly = false }: { readonly readonly?: boolean } = {},
): Promise<void> {
  if (!canChangeOwner()) return;
  const bits = readonly ? readOnly : readWrite;
  const change = async (entry: OpenedEntry): Promise<void> => {
    const { stats, path, forEach } = entry;
    if (stats.isSymbolicLink()) return changeOwnerOfLink(entry, stats.uid, group);
    // a directory after its content: `hasGroupOwnership` is false after an interrupted change
    if (stats.isDirectory()) await forEach(change);
    await chown(path, stats.uid, group);
    await chmod(path, (stats.mode & 0o7777) | (stats.isDirectory() ? bits | directoryBits : bits));
  };
  await withOpenedEntry(path, change);
}

/** Returns true if the directory has the group and the mode that `setGroupOwnership` gives it. */
export async function hasGroupOwnership(path: string, group: number): Promise<boolean> {
  const { gid, mode } = await lstat(path);
  const required = readWrite | directoryBits;
  return gid === group && (mode & required) === required;
}
