import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';

const setGroupId = 0o2000;
/** The permission bits that are added for the group. */
const groupPermissions = { file: 0o060, directory: 0o070 };

/** Returns true if the node sets the volume's group to the pod's fsGroup (CSIDriver.fsGroupPolicy). */
export function shouldSetOwnership(
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
 * Changes the group of all files of a volume, and lets the group read and write them. Does not follow links. Does nothing without root. With the
 * policy `OnRootMismatch`, a volume whose root directory already belongs to the group is left unchanged.
 */
export async function setVolumeOwnership(path: string, group: number, policy?: string): Promise<void> {
  if (!canChangeOwner()) return;
  if (policy === 'OnRootMismatch') {
    const { gid, mode } = await lstat(path);
    const required = groupPermissions.directory | setGroupId;
    if (gid === group && (mode & required) === required) return;
  }
  await changeGroup(path, group);
}

async function changeGroup(path: string, group: number): Promise<void> {
  const stats = await lstat(path);
  if (stats.isDirectory()) for (const entry of await readdir(path)) await changeGroup(join(path, entry), group);
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const added = stats.isDirectory() ? groupPermissions.directory | setGroupId : groupPermissions.file;
  await chmod(path, (stats.mode & 0o7777) | added);
  // a directory is changed after its content, so that OnRootMismatch repeats an interrupted change
}
