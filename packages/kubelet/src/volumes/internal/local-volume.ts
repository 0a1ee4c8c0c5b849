import { execFile } from 'node:child_process';
import { mkdir, realpath, rmdir, stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { promisify } from 'node:util';
import type { PersistentVolume, Pod, Volume } from '@oarlock/api/types/core-v1';
import {
  VolumeError,
  type MountResult,
  type MountedTarget,
  type VolumeDriver,
  type VolumeRequest,
  type VolumeUsage,
} from '@oarlock/spi/volume';
import { deviceUsage, fileSystemUsage } from './disk-usage.ts';
import { mountedAlsoAt, mountsBelow, mountWith, unmountAll } from './mount-points.ts';
import { hasGroupOwnership, setGroupOwnership } from '@oarlock/primitives/os/group-ownership';
import { canMount } from '../file-ownership.ts';

const run = promisify(execFile);
const timeoutMs = 300_000;
/** The file system types that are accepted as the suffix of a mkfs program. */
const fileSystem = /^[a-z][a-z0-9]{0,15}$/;
/** The exit code of blkid if the device contains nothing that blkid knows. */
const blkidNothingFound = 2;

export interface LocalOptions {
  /** Called if a volume keeps a group other than the pod's fsGroup, because pods with the volume's group still use the volume. */
  onShared?(pod: Pod, volume: Volume, message: string): void;
}

/**
 * The driver of PersistentVolumes with source `local`: a directory, or a block device that the pod uses as a device or as a file system, which
 * is created if the device is empty. The source is never removed. The fsGroup of the first pod owns the volume until no pod uses the volume;
 * the node's mount table shows which pods do.
 */
export class LocalVolumeDriver implements VolumeDriver {
  readonly #options: LocalOptions;

  constructor(options: LocalOptions = {}) {
    this.#options = options;
  }

  supports(_volume: Volume, persistentVolume: PersistentVolume | undefined): boolean {
    return persistentVolume?.spec?.local !== undefined;
  }

  async mount(request: VolumeRequest): Promise<MountResult> {
    const { persistentVolume, path, readOnly, fsGroup } = request;
    const spec = persistentVolume?.spec;
    const source = spec?.local?.path ?? '';
    const stats = isAbsolute(source) ? await stat(source).catch(missing) : undefined;
    if (stats === undefined) throw new VolumeError('Failed', `path "${source}" does not exist`);
    if (spec?.volumeMode === 'Block') {
      if (!stats.isBlockDevice()) throw new VolumeError('Failed', `path "${source}" is not a block device`);
      return { hostPath: await realpath(source), device: true };
    }
    if (!stats.isDirectory() && !stats.isBlockDevice())
      throw new VolumeError('Failed', `path "${source}" is neither a directory nor a block device`);
    if (!canMount()) return { hostPath: source }; // without root the directory itself is used
    await mkdir(path, { recursive: true, mode: 0o750 });
    if (!(await mountsBelow(path)).includes(path)) {
      const options = [...(spec?.mountOptions ?? []), ...(readOnly ? ['ro'] : [])];
      if (stats.isBlockDevice()) await mountDevice(source, { target: path, type: spec?.local?.fsType ?? 'ext4' }, options);
      else await mountWith(source, { target: path, options: ['bind', ...options] });
      if (fsGroup !== undefined && !readOnly) await this.#setGroup(request, fsGroup);
    }
    return { hostPath: path };
  }

  async #setGroup({ pod, volume, path, persistentVolume }: VolumeRequest, group: number): Promise<void> {
    const pods = path.slice(0, path.indexOf(`/${pod.metadata?.uid}/`) + 1);
    const others = (await mountedAlsoAt(path)).some((point) => point.startsWith(pods));
    if (others) {
      const { gid } = await stat(path);
      if (gid === group) return;
      const name = persistentVolume?.metadata?.name;
      const message = `The requested fsGroup is ${group}, but the volume ${name} has GID ${gid}. The volume may not be shareable.`;
      this.#options.onShared?.(pod, volume, message);
      return;
    }
    const onMismatch = pod.spec?.securityContext?.fsGroupChangePolicy === 'OnRootMismatch';
    if (!onMismatch || !(await hasGroupOwnership(path, group))) await setGroupOwnership(path, group);
  }

  async unmount({ path }: { readonly path: string }): Promise<void> {
    await unmountAll(path);
    // only the mount point: its content would be the volume's data
    await rmdir(path).catch(missing);
  }

  usage({ hostPath, device }: MountedTarget): Promise<VolumeUsage> {
    return device ? deviceUsage(hostPath) : fileSystemUsage(hostPath);
  }
}

function missing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
}

/** Mounts the file system of a device. If the device is empty, creates a file system first. @throws VolumeError if either fails */
async function mountDevice(
  device: string,
  { target, type }: { readonly target: string; readonly type: string },
  options: readonly string[],
): Promise<void> {
  if (!fileSystem.test(type)) throw new VolumeError('InvalidArgument', `fsType ${JSON.stringify(type)} is not supported`);
  const found = await run('blkid', ['-p', '-s', 'TYPE', '-s', 'PTTYPE', '-o', 'value', device], { timeout: timeoutMs }).then(
    ({ stdout }) => stdout.trim(),
    (error: unknown) => {
      if ((error as { code?: unknown }).code === blkidNothingFound) return '';
      throw new VolumeError('Failed', `failed to detect the file system of ${device}`, { cause: error });
    },
  );
  if (found === '') {
    if (options.includes('ro'))
      throw new VolumeError('Failed', `cannot mount unformatted disk ${device} as we are manipulating it in read-only mode`);
    const asked = type.startsWith('ext') ? ['-F', '-m0', device] : [device];
    await run(`mkfs.${type}`, asked, { timeout: timeoutMs });
  }
  await mountWith(device, { target, options, type });
}
