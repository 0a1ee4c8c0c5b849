import { chmod, mkdir, rm, stat } from 'node:fs/promises';
import { quantityValue } from '@oarlock/api/values/quantity';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import {
  VolumeError,
  type MountedTarget,
  type VolumeCallOptions,
  type VolumeDriver,
  type VolumeRequest,
  type VolumeUsage,
} from '@oarlock/spi/volume';
import { podLimit } from '../../pod-util/resources.ts';
import { DirectoryUsage } from './disk-usage.ts';
import { mountHugepages, mountsBelow, mountTmpfs, unmountAll } from './mount-points.ts';
import { setGroupOwnership } from '@oarlock/primitives/os/group-ownership';
import { canMount } from '../file-ownership.ts';

export interface EmptyDirOptions {
  /** Called if a volume with medium Memory is created on disk, because the kubelet cannot mount a tmpfs. */
  onDisk?(pod: Pod, volume: Volume, why: string): void;
}

/**
 * Returns the size of a volume with medium Memory: the smaller of its sizeLimit and the pod's memory limit (KEP-1967). Undefined selects the
 * kernel's default.
 */
export function memoryBytes(pod: Pod, sizeLimit: string | number | undefined): number | undefined {
  const bounds = [sizeLimit, podLimit(pod, 'memory')]
    .flatMap((one) => (one === undefined ? [] : [quantityValue(one)]))
    .filter((bytes) => bytes > 0);
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

/** The driver of emptyDir volumes: directories with the lifetime of their pod, or a tmpfs if requested and the kubelet may mount. */
export class EmptyDirDriver implements VolumeDriver {
  readonly #options: EmptyDirOptions;
  readonly #usage = new DirectoryUsage();

  constructor(options: EmptyDirOptions = {}) {
    this.#options = options;
  }

  supports(volume: Volume): boolean {
    return volume.emptyDir !== undefined;
  }

  async mount({ pod, volume, path, fsGroup }: VolumeRequest): Promise<{ readonly hostPath: string }> {
    const { medium = '', sizeLimit } = volume.emptyDir ?? {};
    const huge = /^HugePages(-.+)?$/.test(medium);
    if (medium !== '' && medium !== 'Memory' && !huge)
      throw new VolumeError('InvalidArgument', `storage medium ${JSON.stringify(medium)} is not supported`);
    const fresh = (await mkdir(path, { recursive: true })) !== undefined;
    if (medium === 'Memory' && !(await mountsBelow(path)).includes(path)) {
      const failure = canMount()
        ? await mountTmpfs(path, memoryBytes(pod, sizeLimit)).then(
            () => undefined,
            (error: unknown) => String(error),
          )
        : 'the kubelet does not run as root';
      if (failure !== undefined && fresh) this.#options.onDisk?.(pod, volume, failure);
    }
    if (huge && !(await mountsBelow(path)).includes(path)) await mountHugepages(path, pageSizeOf(pod, medium));
    // the umask applied to mkdir; the sticky bit of tmpfs and the group bits stay
    const { mode } = await stat(path);
    if ((mode & 0o777) !== 0o777) await chmod(path, (mode & 0o7777) | 0o777);
    if (fresh && fsGroup !== undefined) await setGroupOwnership(path, fsGroup);
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await unmountAll(path);
    await rm(path, { recursive: true, force: true });
  }

  usage(target: MountedTarget, call?: VolumeCallOptions): Promise<VolumeUsage> {
    return this.#usage.of(target, call);
  }
}

/**
 * Returns the huge page size of the medium: the size in `HugePages-2Mi`, or for `HugePages` the size in the containers' limits.
 * @throws VolumeError if the containers' limits have no huge page size or several sizes
 */
function pageSizeOf({ spec }: Pod, medium: string): number {
  const namedSize = /^HugePages-(.+)$/.exec(medium)?.[1];
  if (namedSize !== undefined) return quantityValue(namedSize);
  const all = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
  const names = all.flatMap(({ resources }) => Object.keys(resources?.limits ?? {})).filter((name) => name.startsWith('hugepages-'));
  const sizes = new Set(names.map((name) => name.slice('hugepages-'.length)));
  const [size] = sizes;
  if (size === undefined || sizes.size > 1)
    throw new VolumeError('InvalidArgument', `medium "HugePages" needs containers with huge pages of one size; there are ${sizes.size}`);
  return quantityValue(size);
}
