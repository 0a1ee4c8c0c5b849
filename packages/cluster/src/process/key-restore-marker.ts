import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';

const markerFile = (dataDir: string): string => join(dataDir, 'restore-in-progress');

/** Marks a data directory whose key files are being restored, until `unmarkKeyRestore`. */
export const markKeyRestore = (dataDir: string): Promise<void> => writeAtomic(markerFile(dataDir), '', { sync: true });
export const unmarkKeyRestore = (dataDir: string): Promise<void> => rm(markerFile(dataDir), { force: true });

/** @throws Error if a part of the key files was restored: a server would create the others, and a repeated restore would find keys of another cluster */
export async function rejectPartialKeys(dataDir: string): Promise<void> {
  if ((await readIfExists(markerFile(dataDir))) !== undefined)
    throw new Error(`${dataDir} contains a part of a backup, because its restore was interrupted: run the same \`oarlock restore\` again`);
}
