import { openSync } from 'node:fs';
import { join } from 'node:path';

/** In bytes. The kernel's limit is 108 with the terminating zero on Linux, 104 on macOS. */
const maxPathBytes = 100;

/**
 * Returns a path to a unix socket of a directory that is short enough for the kernel. If the directory's is too long, Linux reaches it through
 * a descriptor, which stays open. @throws RangeError on other systems
 */
export function socketPath(directory: string, name: string): string {
  const path = join(directory, name);
  if (Buffer.byteLength(path) <= maxPathBytes) return path;
  if (process.platform !== 'linux') throw new RangeError(`the path of the directory is too long for a unix socket: ${path}`);
  return `/proc/self/fd/${openSync(directory, 'r')}/${name}`;
}
