import { chmod } from 'node:fs/promises';
import { withOpenedEntry } from '@oarlock/primitives/os/opened-entry';

/**
 * Lets only the owner connect to a socket. Pods that register plugins can write to the directory of some sockets: they may have replaced the socket
 * by a link, whose target must keep its mode. @throws Error if the path is no socket
 */
export async function restrictToOwner(socket: string): Promise<void> {
  await withOpenedEntry(socket, async ({ stats, path }) => {
    if (!stats.isSocket()) throw new Error(`${socket} was replaced by another file while it was opened`);
    await chmod(path, 0o600);
  });
}
