import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const readWrite = 0o660;
const readOnly = 0o440;
const directoryBits = 0o2110; // setgid, so that new files belong to the group; and group may enter

/** Only root may give files away; without it the files are the kubelet's own user's, and so are the pod's processes. */
export const mayChangeOwners = (): boolean => process.getuid?.() === 0;

/** Gives a tree to a group, which may then read it, and write it unless `readonly`. Links are not followed. */
export async function giveToGroup(path: string, group: number, { readonly = false }: { readonly readonly?: boolean } = {}): Promise<void> {
  if (!mayChangeOwners()) return;
  const stats = await lstat(path);
  // a directory after what is in it: what was interrupted is begun anew
  if (stats.isDirectory()) for (const entry of await readdir(path)) await giveToGroup(join(path, entry), group, { readonly });
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const bits = readonly ? readOnly : readWrite;
  await chmod(path, (stats.mode & 0o7777) | (stats.isDirectory() ? bits | directoryBits : bits));
}

/** Whether a directory is the group's already, as `fsGroupChangePolicy: OnRootMismatch` asks. */
export async function belongsToGroup(path: string, group: number): Promise<boolean> {
  const { gid, mode } = await lstat(path);
  const wanted = readWrite | directoryBits;
  return gid === group && (mode & wanted) === wanted;
}

/** Gives one file to a user, who alone may read it. */
export async function giveToUser(path: string, user: number): Promise<void> {
  if (!mayChangeOwners()) return;
  const { gid } = await lstat(path);
  await lchown(path, user, gid);
}
