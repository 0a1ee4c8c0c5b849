import { chmod, mkdir, rm } from 'node:fs/promises';
import { value } from '@oarlock/api/quantity';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import { VolumeError, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';
import { mountsBelow, mountTmpfs, unmountAll } from './mount-points.ts';
import { giveToGroup, mayChangeOwners } from './ownership.ts';

export interface EmptyDirOptions {
  /** Told when a volume that asked for memory is on disk. */
  onDisk?(pod: Pod, volume: Volume, why: string): void;
}

/** A directory that lives as long as its pod; in memory when asked for and the kubelet may mount. */
export class EmptyDirDriver implements VolumeDriver {
  readonly #options: EmptyDirOptions;

  constructor(options: EmptyDirOptions = {}) {
    this.#options = options;
  }

  supports(volume: Volume): boolean {
    return volume.emptyDir !== undefined;
  }

  async mount({ pod, volume, path, fsGroup }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const { medium = '', sizeLimit } = volume.emptyDir ?? {};
    if (medium !== '' && medium !== 'Memory')
      throw new VolumeError('InvalidArgument', `storage medium ${JSON.stringify(medium)} is not supported`);
    const fresh = (await mkdir(path, { recursive: true })) !== undefined;
    if (medium === 'Memory' && !(await mountsBelow(path)).includes(path)) {
      const failure = mayChangeOwners()
        ? await mountTmpfs(path, sizeLimit === undefined ? undefined : value(sizeLimit)).then(
            () => undefined,
            (error: unknown) => String(error),
          )
        : 'the kubelet does not run as root';
      if (failure !== undefined && fresh) this.#options.onDisk?.(pod, volume, failure);
    }
    await chmod(path, 0o777); // what mkdir made went through the umask
    if (fresh && fsGroup !== undefined) await giveToGroup(path, fsGroup);
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await unmountAll(path);
    await rm(path, { recursive: true, force: true });
  }
}
