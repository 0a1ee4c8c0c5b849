import { chmod, chown, lchown, lstat } from 'node:fs/promises';
import { changeOwnerOfLink, withOpenedEntry, type OpenedEntry } from '@oarlock/primitives/os/opened-entry';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';

const readWrite = 0o660;
const readOnly = 0o440;
const directoryBits = 0o2110; // setgid: new files inherit the group; and the group may enter

/** Returns true if the process may mount file systems for pods. Without root, pods use the directories themselves. */
export const canMount = (): boolean => process.getuid?.() === 0;

/**
 * Sets the group of a directory tree. The group may read the files and, unless `readonly`, write them. Does not follow symbolic links, also if a pod that
 * shares the volume replaces names meanwhile.
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
    // a directory after its content: an interrupted change is repeated
    if (stats.isDirectory()) await forEach(change);
    await chown(path, stats.uid, group);
    await chmod(path, (stats.mode & 0o7777) | (stats.isDirectory() ? bits | directoryBits : bits));
  };
  await withOpenedEntry(path, change);
}

/** Returns true if the directory already belongs to the group, for `fsGroupChangePolicy: OnRootMismatch`. */
export async function belongsToGroup(path: string, group: number): Promise<boolean> {
  const { gid, mode } = await lstat(path);
  const wanted = readWrite | directoryBits;
  return gid === group && (mode & wanted) === wanted;
}

/** Sets the owner of one file. */
export async function setFileOwner(path: string, user: number): Promise<void> {
  if (!canChangeOwner()) return;
  const { gid } = await lstat(path);
  await lchown(path, user, gid);
}
