import type { StorageDriver } from '@oarlock/spi/storage';

/** Key that is stored while a restore is in progress. A storage that contains this key may be cleared, because the restore was interrupted. */
export const restoreMarker = '/oarlock/restore';

/** @throws Error if the storage contains a part of a backup: controllers would delete objects whose owners are missing */
export async function rejectInterruptedRestore(storage: Pick<StorageDriver, 'get'>): Promise<void> {
  if ((await storage.get(restoreMarker)).entry !== undefined)
    throw new Error('the storage contains a part of a backup, because its restore was interrupted: run the same `oarlock restore` again');
}
