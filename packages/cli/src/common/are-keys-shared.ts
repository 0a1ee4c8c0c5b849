import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Returns true if other servers share the keys of a data directory: changes then go through the storage. */
export const areKeysShared = (dataDir: string): boolean => existsSync(join(resolve(dataDir), 'pki', 'cluster.key'));
