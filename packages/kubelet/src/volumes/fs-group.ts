import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';

const readWrite = 0o660;
const readOnly = 0o440;
const directoryBits = 0o2110; // setgid: new files inherit the group; and the group may enter

/** Returns true if the process may mount file systems for pods. Without root, pods use the directories themselves. */
export const canMount = (): boolean => process.getuid?.() === 0;

/** Sets the group of a directory tree. The group may read the files and, unless `readonly`, write them. Does not follow symbolic links. */
export async function setGroupOwnership(
  path: string,
  group: number,
  { readonly = false }: { readonly readonly?: boolean } = {},
): Promise<void> {
  if (!canChangeOwner()) return;
  const stats = await lstat(path);
  // a directory after its content: an interrupted change is repeated
  if (stats.isDirectory()) for (const entry of await readdir(path)) await setGroupOwnership(join(path, entry), group, { readonly });
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const bits = readonly ? readOnly : readWrite;
  await chmod(path, (stats.mode & 0o7777) | (stats.isDirectory() ? bits | directoryBits : bits));
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
