import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { changeOwnerOfLink, withOpenedEntry, type OpenedEntry } from '@oarlock/primitives/os/opened-entry';
import { chmod, chown, lstat } from 'node:fs/promises';
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
 * Changes the group of all files of a volume, and lets the group read and write them. Does not follow links, also if a pod that
 * shares the volume replaces names meanwhile. Does nothing without root. With the
 * policy `OnRootMismatch`, a volume whose root directory already belongs to the group is left unchanged.
 */
export async function setVolumeOwnership(path: string, group: number, policy?: string): Promise<void> {
  if (!canChangeOwner()) return;
  if (policy === 'OnRootMismatch') {
    const { gid, mode } = await lstat(path);
    const required = groupPermissions.directory | setGroupId;
    if (gid === group && (mode & required) === required) return;
  }
  await withOpenedEntry(path, changeGroup);

  async function changeGroup(entry: OpenedEntry): Promise<void> {
    const { stats, path: own, forEach } = entry;
    if (stats.isSymbolicLink()) return changeOwnerOfLink(entry, stats.uid, group);
    // a directory is changed after its content, so that OnRootMismatch repeats an interrupted change
    if (stats.isDirectory()) await forEach(changeGroup);
    await chown(own, stats.uid, group);
    const added = stats.isDirectory() ? groupPermissions.directory | setGroupId : groupPermissions.file;
    await chmod(own, (stats.mode & 0o7777) | added);
  }
}
