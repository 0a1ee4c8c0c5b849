import { createHash } from 'node:crypto';
import { lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The kernel's limit is 108 bytes with the terminating zero on Linux, 104 on macOS. */
const maxSocketPathLength = 100;

/**
 * Returns a path for the socket of a CSI driver: in the directory of the driver, or below the directory for temporary files if that path would be too
 * long. Every user can make files there, and knows the name.
 * @throws Error if another user made the directory of the socket, or can write to it: the user could answer in place of the driver
 */
export async function driverSocket(directory: string): Promise<string> {
  const preferred = join(directory, 'csi.sock');
  if (Buffer.byteLength(preferred) < maxSocketPathLength) return preferred;
  const fallback = join(tmpdir(), `oarlock-csi-${createHash('sha256').update(directory).digest('hex').slice(0, 12)}`);
  await mkdir(fallback, { recursive: true, mode: 0o700 });
  const stats = await lstat(fallback);
  if (!stats.isDirectory() || stats.uid !== process.getuid?.() || (stats.mode & 0o077) !== 0)
    throw new Error(`${fallback} belongs to another user or is open to others: remove it, or use a data directory with a shorter path`);
  return join(fallback, 'csi.sock');
}
