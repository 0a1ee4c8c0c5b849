import { chmod, mkdir, rm } from 'node:fs/promises';
import type { Volume } from '@oarlock/api/types/core-v1';
import { VolumeError, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';

/** Creates one directory per volume of a pod. The driver keeps no state in memory, so a kubelet restart has no effect. */
export class DirectoryVolumes implements VolumeDriver {
  supports(volume: Volume): boolean {
    return volume.csi?.driver === '__ID__';
  }

  async mount({ volume, path }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const unknown = Object.keys(volume.csi?.volumeAttributes ?? {});
    if (unknown.length > 0) throw new VolumeError('InvalidArgument', `unknown volume attributes: ${unknown.join(', ')}`);
    await mkdir(path, { recursive: true });
    await chmod(path, 0o777); // mkdir applies the umask, but any user of the pod may write
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await rm(path, { recursive: true, force: true });
  }
}
