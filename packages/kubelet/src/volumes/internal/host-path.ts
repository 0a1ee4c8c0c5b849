import { mkdir, open, stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import type { Stats } from 'node:fs';
import type { PersistentVolume, Volume } from '@oarlock/api/types/core-v1';
import { VolumeError, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';

const checks: Readonly<Record<string, { readonly what: string; is(stats: Stats): boolean }>> = {
  Directory: { what: 'a directory', is: (stats) => stats.isDirectory() },
  DirectoryOrCreate: { what: 'a directory', is: (stats) => stats.isDirectory() },
  File: { what: 'a file', is: (stats) => stats.isFile() },
  FileOrCreate: { what: 'a file', is: (stats) => stats.isFile() },
  Socket: { what: 'a socket file', is: (stats) => stats.isSocket() },
  CharDevice: { what: 'a character device', is: (stats) => stats.isCharacterDevice() },
  BlockDevice: { what: 'a block device', is: (stats) => stats.isBlockDevice() },
};

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

/** The driver of hostPath volumes: paths of the node, named by a pod or a PersistentVolume. The path is never removed. */
export class HostPathDriver implements VolumeDriver {
  supports(volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return volume.hostPath !== undefined || persistentVolume?.spec?.hostPath !== undefined;
  }

  async mount({ volume, persistentVolume }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const { path = '', type = '' } = volume.hostPath ?? persistentVolume?.spec?.hostPath ?? {};
    if (!isAbsolute(path) || path.split('/').includes('..'))
      throw new VolumeError('InvalidArgument', `hostPath ${JSON.stringify(path)} must be absolute and without ".."`);
    if (type === '') return { hostPath: path };
    const check = checks[type];
    if (check === undefined) throw new VolumeError('InvalidArgument', `${type} is an invalid volume type`);
    let stats = await stat(path).catch(missing);
    if (stats === undefined && type === 'DirectoryOrCreate') await mkdir(path, { recursive: true, mode: 0o755 });
    else if (stats === undefined && type === 'FileOrCreate') await (await open(path, 'wx', 0o644)).close();
    else if (stats === undefined) throw new VolumeError('Failed', `hostPath type check failed: ${path} is not ${check.what}`);
    stats ??= await stat(path);
    if (!check.is(stats)) throw new VolumeError('Failed', `hostPath type check failed: ${path} is not ${check.what}`);
    return { hostPath: path };
  }

  async unmount(): Promise<void> {
    // hostPath volumes have nothing to unmount
  }
}
