import { lchown, lstat } from 'node:fs/promises';
import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';

/** Returns true if the process may mount file systems for pods. Without root, pods use the directories themselves. */
export const canMount = (): boolean => process.getuid?.() === 0;

/** Sets the owner of one file. */
export async function setFileOwner(path: string, user: number): Promise<void> {
  if (!canChangeOwner()) return;
  const { gid } = await lstat(path);
  await lchown(path, user, gid);
}
