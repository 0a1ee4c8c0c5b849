import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { hasGroupOwnership, setGroupOwnership } from '@oarlock/primitives/os/group-ownership';

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
 * Lets the group read and write all files of a volume. With the policy `OnRootMismatch`, a volume whose root directory already belongs to the group is left
 * unchanged.
 */
export async function setVolumeOwnership(path: string, group: number, policy?: string): Promise<void> {
  if (policy !== 'OnRootMismatch' || !(await hasGroupOwnership(path, group))) await setGroupOwnership(path, group);
}
