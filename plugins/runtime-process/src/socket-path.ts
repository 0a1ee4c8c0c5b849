import { openSync } from 'node:fs';
import { join } from 'node:path';

/** The kernel's limit is 108 bytes with the terminating zero on Linux, 104 on macOS. */
const longest = 100;
export const socketName = 'supervisor.sock';

/**
 * A path to the supervisor's socket that the kernel takes. Where the directory's is too long, Linux can reach it through
 * a descriptor, which stays open from then on. @throws RangeError elsewhere
 */
export function socketPath(dataDir: string): string {
  const path = join(dataDir, socketName);
  if (Buffer.byteLength(path) <= longest) return path;
  if (process.platform !== 'linux') throw new RangeError(`the path of the data directory is too long for a socket: ${path}`);
  return `/proc/self/fd/${openSync(dataDir, 'r')}/${socketName}`;
}
