import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';

const setGroupId = 0o2000;
const forGroup = { file: 0o060, directory: 0o070 };

/** Whether the node gives the volume to the pod's group (CSIDriver.fsGroupPolicy). */
export function wantsGroup(
  policy = 'ReadWriteOnceWithFSType',
  { readOnly, fsType, ephemeral }: { readonly readOnly: boolean; readonly fsType: string | undefined; readonly ephemeral: boolean },
  volume: PersistentVolume | undefined,
): boolean {
  if (readOnly || policy === 'None') return false;
  if (policy === 'File') return true;
  if (!fsType) return false;
  return ephemeral || volume?.spec?.accessModes?.some((mode) => mode.startsWith('ReadWriteOnce')) === true;
}

/**
 * Gives a volume to a group, which may then read and write all of it. Links are not followed. Without root nothing can be given away.
 * `policy`: `OnRootMismatch` leaves a volume alone whose root is the group's already.
 */
export async function giveToGroup(path: string, group: number, policy?: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  if (policy === 'OnRootMismatch') {
    const { gid, mode } = await lstat(path);
    const wanted = forGroup.directory | setGroupId;
    if (gid === group && (mode & wanted) === wanted) return;
  }
  await give(path, group);
}

async function give(path: string, group: number): Promise<void> {
  const stats = await lstat(path);
  if (stats.isDirectory()) for (const entry of await readdir(path)) await give(join(path, entry), group);
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const more = stats.isDirectory() ? forGroup.directory | setGroupId : forGroup.file;
  await chmod(path, (stats.mode & 0o7777) | more);
  // a directory after what is in it: what was interrupted is begun anew
}
