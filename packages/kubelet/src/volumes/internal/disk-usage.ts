import { readFile, stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { VolumeError, type MountedTarget, type VolumeCallOptions, type VolumeUsage } from '@oarlock/spi/volume';
import { Semaphore } from '@oarlock/primitives/semaphore';
import { directorySize } from '../tree-size.ts';

const sectorBytes = 512;
const failed = (path: string) => (cause: unknown) => {
  throw new VolumeError('Failed', `failed to get the usage of ${path}: ${String(cause)}`, { cause });
};

/** Returns the usage of a volume that is a file system. @throws VolumeError */
export async function fileSystemUsage(path: string): Promise<VolumeUsage> {
  const { bsize, blocks, bavail, bfree, files, ffree } = await statfs(path).catch(failed(path));
  return {
    capacityBytes: blocks * bsize,
    availableBytes: bavail * bsize,
    usedBytes: (blocks - bfree) * bsize,
    inodes: files,
    inodesFree: ffree,
    inodesUsed: files - ffree,
  };
}

/** Returns the usage of a block device, which is its capacity only. @throws VolumeError */
export async function deviceUsage(path: string): Promise<VolumeUsage> {
  const { rdev } = await stat(path).catch(failed(path));
  const major = ((rdev >> 8) & 0xfff).toString();
  const minor = ((rdev & 0xff) | ((rdev >> 12) & 0xfff00)).toString();
  const sectors = await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8').catch(failed(path));
  return { capacityBytes: Number(sectors) * sectorBytes };
}

/** The number of concurrent directory maxParallelWalks. */
const maxParallelWalks = 2;
const never = new AbortController().signal;

/** Measures volumes that are directories. */
export class DirectoryUsage {
  readonly #turns = new Semaphore(maxParallelWalks);

  /** Reads the statistics of a separate file system; maxParallelWalks any other directory. @throws VolumeError; the signal's reason if it aborts */
  async of({ hostPath }: Pick<MountedTarget, 'hostPath'>, { signal = never }: VolumeCallOptions = {}): Promise<VolumeUsage> {
    const [fileSystem, own, above] = await Promise.all([
      fileSystemUsage(hostPath),
      stat(hostPath).catch(failed(hostPath)),
      stat(dirname(hostPath)).catch(failed(hostPath)),
    ]);
    if (own.dev !== above.dev) return fileSystem;
    const { bytes, inodes } = await this.#turns.run(signal, () => directorySize(hostPath, signal));
    // as du does, count the directory itself
    return { ...fileSystem, usedBytes: bytes + own.blocks * sectorBytes, inodesUsed: inodes + 1 };
  }
}
