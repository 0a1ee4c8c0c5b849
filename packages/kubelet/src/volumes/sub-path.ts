import { constants } from 'node:fs';
import { chmod, mkdir, open, realpath, stat, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { VolumeError } from '@oarlock/spi/volume';
import { bindMount, mountsBelow, unmountAll } from './internal/mount-points.ts';

/** A Linux flag that Node.js does not export: opens a path without access to its content. With O_NOFOLLOW, a link itself is opened. */
const O_PATH = 0x20_0000;
const flags = O_PATH | constants.O_NOFOLLOW;
const below = (handle: FileHandle, name: string) => `/proc/self/fd/${handle.fd}/${name}`;

/**
 * Opens `path` in `base` part by part, each part relative to the previous one and never through a link, so that a process that can write to
 * the volume cannot redirect the path. If `make` is set, missing directories are created with that mode.
 */
async function openBelow(base: string, path: string, make?: number): Promise<FileHandle> {
  let handle = await open(base, O_PATH | constants.O_DIRECTORY);
  try {
    for (const part of path.split('/').filter((one) => one !== '' && one !== '.')) {
      const name = below(handle, part);
      let next: FileHandle;
      try {
        next = await open(name, flags);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || make === undefined) throw error;
        await mkdir(name, { mode: make });
        next = await open(name, flags);
        await chmod(`/proc/self/fd/${next.fd}`, make);
      }
      await handle.close();
      handle = next;
      if ((await handle.stat()).isSymbolicLink())
        throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(path)} contains a symbolic link`);
    }
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

const escapes = (path: string) => path === '..' || path.startsWith('../') || isAbsolute(path);

/** Resolves a path in a volume, following links within the volume. @throws VolumeError `InvalidArgument` if the path leaves the volume */
async function resolveInVolume(
  volumePath: string,
  subPath: string,
): Promise<{ readonly base: string; readonly inside: string; readonly missing: boolean }> {
  if (isAbsolute(subPath) || subPath.split('/').includes('..'))
    throw new VolumeError('InvalidArgument', `subPath ${JSON.stringify(subPath)} must be relative and without ".."`);
  const base = await realpath(volumePath);
  const wanted = join(base, subPath);
  const existing = await realpath(wanted).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  });
  const inside = relative(base, existing ?? wanted);
  if (escapes(inside)) throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(subPath)} is not within the volume`);
  return { base, inside, missing: existing === undefined };
}

/**
 * Reads a file in a volume. Returns undefined if the file does not exist. The pod may replace files and links during the call; therefore the
 * opened file itself is checked, not its path. @throws VolumeError `InvalidArgument` if the path leaves the volume, or if the file is not
 * regular or larger than `limit` bytes
 */
export async function readFileInVolume(volumePath: string, path: string, limit: number): Promise<Buffer | undefined> {
  const { base, inside, missing } = await resolveInVolume(volumePath, path);
  if (missing) return undefined;
  const handle = await openBelow(base, inside);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new VolumeError('InvalidArgument', `${JSON.stringify(path)} is not a file`);
    if (stats.size > limit) throw new VolumeError('InvalidArgument', `${JSON.stringify(path)} is larger than ${limit} bytes`);
    const file = await open(`/proc/self/fd/${handle.fd}`, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(stats.size), 0, stats.size, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } finally {
    await handle.close();
  }
}

async function isSame(handle: FileHandle, path: string): Promise<boolean> {
  const [one, other] = await Promise.all([handle.stat({ bigint: true }), stat(path, { bigint: true })]);
  return one.dev === other.dev && one.ino === other.ino;
}

export interface SubPathRequest {
  /** The host path of the volume. */
  readonly volumePath: string;
  readonly subPath: string;
  /** The path at which to bind-mount the subPath, so that the container gets exactly the checked file; undefined if the kubelet cannot mount. */
  readonly target: string | undefined;
}

/**
 * A prepared subPath. If the kubelet could not bind-mount it, the pod may replace the file before the container uses it; `checkedFile` then
 * identifies the file that was checked.
 */
export interface PreparedSubPath {
  readonly hostPath: string;
  /** The device and inode numbers of the checked file, as `DEVICE:INODE`. */
  readonly checkedFile?: string;
}

/**
 * Returns the host path of a subPath of a volume, and creates the subPath if it is missing. Follows links within the volume.
 * @throws VolumeError `InvalidArgument` if the subPath leaves the volume
 */
export async function prepareSafeSubPath({ volumePath, subPath, target }: SubPathRequest): Promise<PreparedSubPath> {
  const { base, inside, missing } = await resolveInVolume(volumePath, subPath);
  const handle = await openBelow(base, inside, missing ? (await stat(base)).mode & 0o7777 : undefined);
  try {
    const seen = await realpath(`/proc/self/fd/${handle.fd}`);
    if (escapes(relative(base, seen)))
      throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(subPath)} is not within the volume`);
    if (target === undefined) {
      const { dev, ino } = await handle.stat({ bigint: true });
      return { hostPath: seen, checkedFile: `${dev}:${ino}` };
    }
    if ((await mountsBelow(target)).includes(target)) {
      if (await isSame(handle, target)) return { hostPath: target };
      // a replaced file, such as that of a ConfigMap: containers cannot start with a mount of a deleted file
      await unmountAll(target);
    }
    if ((await handle.stat()).isDirectory()) await mkdir(target, { recursive: true });
    else {
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, '', { flag: 'a', mode: 0o600 });
    }
    await bindMount(`/proc/${process.pid}/fd/${handle.fd}`, target);
    return { hostPath: target };
  } finally {
    await handle.close();
  }
}
