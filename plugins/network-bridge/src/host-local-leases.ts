import { readFile, readdir, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';

export interface Lease {
  readonly address: string;
  readonly containerId: string;
  readonly ifName: string /** Milliseconds since the epoch. */;
  readonly since: number;
}

/**
 * Reads the leases of the host-local plugin: one file per address, which contains the container id and the interface name on one line each. Only the
 * plugin may release a lease, because it locks the directory.
 */
export async function hostLocalLeases(directory: string): Promise<readonly Lease[]> {
  const leases = await Promise.all(
    (await names(directory)).map(async (name): Promise<Lease | undefined> => {
      const path = join(directory, name);
      try {
        const [containerId = '', ifName = ''] = (await readFile(path, 'utf8')).split('\n').map((line) => line.trim());
        return { address: addressOf(name), containerId, ifName, since: (await stat(path)).mtimeMs };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // freed in between
        throw error;
      }
    }),
  );
  return leases.filter((lease) => lease !== undefined);
}

export async function countLeases(directory: string): Promise<number> {
  return (await names(directory)).length;
}

async function names(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).filter((name) => isIP(addressOf(name)) !== 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Returns the address of a lease file. On file systems without colons in names, host-local writes IPv6 addresses with underscores. */
const addressOf = (name: string) => name.replaceAll('_', ':');
