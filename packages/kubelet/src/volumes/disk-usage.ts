import { readFile, stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { VolumeError, type MountedTarget, type VolumeCall, type VolumeUsage } from '@oarlock/spi/volume';
import { Semaphore } from '../semaphore.ts';
import { treeSize } from '../tree-size.ts';

const sectorBytes = 512;
const gone = (path: string) => (cause: unknown) => {
  throw new VolumeError('Failed', `failed to get the usage of ${path}: ${String(cause)}`, { cause });
};

/** Of a volume that is a file system. @throws VolumeError */
export async function fileSystemUsage(path: string): Promise<VolumeUsage> {
  const { bsize, blocks, bavail, bfree, files, ffree } = await statfs(path).catch(gone(path));
  return {
    capacityBytes: blocks * bsize,
    availableBytes: bavail * bsize,
    usedBytes: (blocks - bfree) * bsize,
    inodes: files,
    inodesFree: ffree,
    inodesUsed: files - ffree,
  };
}

/** Of a volume that is a block device: how large it is, and nothing else. @throws VolumeError */
export async function deviceUsage(path: string): Promise<VolumeUsage> {
  const { rdev } = await stat(path).catch(gone(path));
  const major = ((rdev >> 8) & 0xfff).toString();
  const minor = ((rdev & 0xff) | ((rdev >> 12) & 0xfff00)).toString();
  const sectors = await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8').catch(gone(path));
  return { capacityBytes: Number(sectors) * sectorBytes };
}

/** Directories that are walked at a time. */
const walks = 2;
const never = new AbortController().signal;

/** Of volumes that are directories among others: what is in them, with what their file system has. */
export class DirectoryUsage {
  readonly #turns = new Semaphore(walks);

  /** A file system of its own is asked, and the rest is walked through. @throws VolumeError; the signal's reason when it aborts */
  async of({ hostPath }: Pick<MountedTarget, 'hostPath'>, { signal = never }: VolumeCall = {}): Promise<VolumeUsage> {
    const [whole, own, above] = await Promise.all([
      fileSystemUsage(hostPath),
      stat(hostPath).catch(gone(hostPath)),
      stat(dirname(hostPath)).catch(gone(hostPath)),
    ]);
    if (own.dev !== above.dev) return whole;
    const { bytes, inodes } = await this.#turns.run(signal, () => treeSize(hostPath, signal));
    // the directory itself counts, as it does for du
    return { ...whole, usedBytes: bytes + own.blocks * sectorBytes, inodesUsed: inodes + 1 };
  }
}
