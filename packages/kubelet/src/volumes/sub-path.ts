import { constants } from 'node:fs';
import { chmod, mkdir, open, realpath, stat, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { VolumeError } from '@oarlock/spi/volume';
import { bindMount, mountsBelow, unmountAll } from './mount-points.ts';

/** Opens a name without reading it and without following it; Linux, not in Node's table. */
const O_PATH = 0x20_0000;
const flags = O_PATH | constants.O_NOFOLLOW;
const below = (handle: FileHandle, name: string) => `/proc/self/fd/${handle.fd}/${name}`;

/**
 * Opens `path` below `base` part by part, each relative to the one before and never through a link: whoever can write to the volume cannot
 * turn it to another place meanwhile. With `make`, missing directories are made with that mode.
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
        throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(path)} has a link on its way`);
    }
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

const leaves = (path: string) => path === '..' || path.startsWith('../') || isAbsolute(path);

/** Where a path within a volume leads to, with the links inside followed. @throws VolumeError `InvalidArgument` when it leaves the volume */
async function placeOf(
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
  if (leaves(inside)) throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(subPath)} is not within the volume`);
  return { base, inside, missing: existing === undefined };
}

/**
 * What a file in a volume holds; undefined when it is not there. Pods may write to the volume meanwhile: what is not a plain file within it
 * is not opened. @throws VolumeError `InvalidArgument`
 */
export async function readBelow(volumePath: string, path: string, limit: number): Promise<Buffer | undefined> {
  const { base, inside, missing } = await placeOf(volumePath, path);
  if (missing) return undefined;
  const place = await openBelow(base, inside);
  try {
    const stats = await place.stat();
    if (!stats.isFile()) throw new VolumeError('InvalidArgument', `${JSON.stringify(path)} is not a file`);
    if (stats.size > limit) throw new VolumeError('InvalidArgument', `${JSON.stringify(path)} is larger than ${limit} bytes`);
    const file = await open(`/proc/self/fd/${place.fd}`, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(stats.size), 0, stats.size, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } finally {
    await place.close();
  }
}

async function isSame(handle: FileHandle, path: string): Promise<boolean> {
  const [one, other] = await Promise.all([handle.stat({ bigint: true }), stat(path, { bigint: true })]);
  return one.dev === other.dev && one.ino === other.ino;
}

export interface SubPathRequest {
  /** The volume on the node. */
  readonly volumePath: string;
  readonly subPath: string;
  /** Where to mount it, when mounting is possible: the container then sees what was checked and nothing that comes in its place. */
  readonly target: string | undefined;
}

/**
 * The host path of a part of a volume, made when it is missing. Links inside the volume are followed as long as they stay inside.
 * @throws VolumeError `InvalidArgument` when it leaves the volume
 */
export async function prepareSubPath({ volumePath, subPath, target }: SubPathRequest): Promise<string> {
  const { base, inside, missing } = await placeOf(volumePath, subPath);
  const handle = await openBelow(base, inside, missing ? (await stat(base)).mode & 0o7777 : undefined);
  try {
    const seen = await realpath(`/proc/self/fd/${handle.fd}`);
    if (leaves(relative(base, seen)))
      throw new VolumeError('InvalidArgument', `subpath ${JSON.stringify(subPath)} is not within the volume`);
    if (target === undefined) return seen;
    if ((await mountsBelow(target)).includes(target)) {
      if (await isSame(handle, target)) return target;
      // a file that was replaced meanwhile, as those of ConfigMaps are: containers cannot be started over one that is gone
      await unmountAll(target);
    }
    if ((await handle.stat()).isDirectory()) await mkdir(target, { recursive: true });
    else {
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, '', { flag: 'a', mode: 0o600 });
    }
    await bindMount(`/proc/${process.pid}/fd/${handle.fd}`, target);
    return target;
  } finally {
    await handle.close();
  }
}
