import { readFile, stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { VolumeError, type MountedTarget, type VolumeCallOptions, type VolumeUsage } from '@oarlock/spi/volume';
import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';
import { directorySize } from '../tree-size.ts';

const sectorBytes = 512;
const failed = (path: string) => (cause: unknown) => {
  throw new VolumeError('Failed', `failed to get the usage of ${path}: ${String(cause)}`, { cause });
};

/** Returns the usage of a volume that has its own file system. @throws VolumeError if the path cannot be read */
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

/** Returns the usage of a block device, which contains only the capacity. @throws VolumeError if the device cannot be read */
export async function deviceUsage(path: string): Promise<VolumeUsage> {
  const { rdev } = await stat(path).catch(failed(path));
  const major = ((rdev >> 8) & 0xfff).toString();
  const minor = ((rdev & 0xff) | ((rdev >> 12) & 0xfff00)).toString();
  const sectors = await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8').catch(failed(path));
  return { capacityBytes: Number(sectors) * sectorBytes };
}

/** The maximum number of concurrent directory walks. */
const maxParallelWalks = 2;
const never = new AbortController().signal;

/** Measures the usage of volumes that are directories. */
export class DirectoryUsage {
  readonly #turns = new Semaphore(maxParallelWalks);

  /**
   * Returns the usage of a directory: the statistics of its file system if the directory is a mount point, otherwise the result of a directory walk.
   * @throws VolumeError if the directory cannot be read, the signal's reason if the signal aborts
   */
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
