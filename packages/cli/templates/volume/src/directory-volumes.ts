import { chmod, mkdir, rm } from 'node:fs/promises';
import type { Volume } from '@oarlock/api/types/core-v1';
import { VolumeError, type VolumeDriver, type VolumeRequest } from '@oarlock/spi/volume';

/** A directory for each volume of each pod. All that is known of it is on disk: a restart of the kubelet changes nothing. */
export class DirectoryVolumes implements VolumeDriver {
  supports(volume: Volume): boolean {
    return volume.csi?.driver === '__ID__';
  }

  async mount({ volume, path }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const unknown = Object.keys(volume.csi?.volumeAttributes ?? {});
    if (unknown.length > 0) throw new VolumeError('InvalidArgument', `there are no volume attributes ${unknown.join(', ')}`);
    await mkdir(path, { recursive: true });
    await chmod(path, 0o777); // what mkdir made went through the umask, and any user of the pod may write
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await rm(path, { recursive: true, force: true });
  }
}
