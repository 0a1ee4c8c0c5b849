import { chmod, mkdir, rm, stat } from 'node:fs/promises';
import { value } from '@oarlock/api/quantity';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import {
  VolumeError,
  type MountedTarget,
  type VolumeCall,
  type VolumeDriver,
  type VolumeRequest,
  type VolumeUsage,
} from '@oarlock/spi/volume';
import { podLimit } from '../resources.ts';
import { DirectoryUsage } from './disk-usage.ts';
import { mountHugepages, mountsBelow, mountTmpfs, unmountAll } from './mount-points.ts';
import { giveToGroup, mayChangeOwners } from './ownership.ts';

export interface EmptyDirOptions {
  /** Told when a volume that asked for memory is on disk. */
  onDisk?(pod: Pod, volume: Volume, why: string): void;
}

/**
 * How large a volume in memory may become: what it asks for, and no more than the pod may take (KEP-1967). Undefined: what the kernel gives.
 */
export function memoryBytes(pod: Pod, sizeLimit: string | number | undefined): number | undefined {
  const bounds = [sizeLimit, podLimit(pod, 'memory')]
    .flatMap((one) => (one === undefined ? [] : [value(one)]))
    .filter((bytes) => bytes > 0);
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

/** A directory that lives as long as its pod; in memory when asked for and the kubelet may mount. */
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
      const failure = mayChangeOwners()
        ? await mountTmpfs(path, memoryBytes(pod, sizeLimit)).then(
            () => undefined,
            (error: unknown) => String(error),
          )
        : 'the kubelet does not run as root';
      if (failure !== undefined && fresh) this.#options.onDisk?.(pod, volume, failure);
    }
    if (huge && !(await mountsBelow(path)).includes(path)) await mountHugepages(path, pageSizeOf(pod, medium));
    // what mkdir made went through the umask; tmpfs adds the sticky bit and the group its own, which stay
    const { mode } = await stat(path);
    if ((mode & 0o777) !== 0o777) await chmod(path, (mode & 0o7777) | 0o777);
    if (fresh && fsGroup !== undefined) await giveToGroup(path, fsGroup);
    return { hostPath: path };
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await unmountAll(path);
    await rm(path, { recursive: true, force: true });
  }

  usage(target: MountedTarget, call?: VolumeCall): Promise<VolumeUsage> {
    return this.#usage.of(target, call);
  }
}

/** `HugePages-2Mi` says the size itself; `HugePages` is the one that the pod's containers have limits of. @throws VolumeError when that is not one */
function pageSizeOf({ spec }: Pod, medium: string): number {
  const said = /^HugePages-(.+)$/.exec(medium)?.[1];
  if (said !== undefined) return value(said);
  const all = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
  const names = all.flatMap(({ resources }) => Object.keys(resources?.limits ?? {})).filter((name) => name.startsWith('hugepages-'));
  const sizes = new Set(names.map((name) => name.slice('hugepages-'.length)));
  const [size] = sizes;
  if (size === undefined || sizes.size > 1)
    throw new VolumeError('InvalidArgument', `medium "HugePages" needs containers with huge pages of one size; there are ${sizes.size}`);
  return value(size);
}
