import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, readFile, readdir, readlink, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { VolumeError } from '@oarlock/spi/volume';

/** The content and the permission bits of one file of a volume. */
export interface FileContent {
  readonly data: Buffer;
  readonly mode: number;
}
/** The files of a volume, keyed by their path in the volume. */
export type Payload = ReadonlyMap<string, FileContent>;

const dataLink = '..data';
const newDataLink = '..data_tmp';
/** The names of the timestamped directories that this module creates: a time and a random number. */
const payloadDirectory = /^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$/;
const maxPath = 4096;

/** Validates the paths. @throws VolumeError `InvalidArgument` if a path leaves the volume or has a reserved name */
function validate(payload: Payload): void {
  for (const path of payload.keys()) {
    const parts = path.split('/');
    const bad =
      path === '' ||
      path.length > maxPath ||
      isAbsolute(path) ||
      parts.some((part) => part === '..' || part === '' || part === '.' || part.length > 255) ||
      parts[0]?.startsWith('..');
    if (bad) throw new VolumeError('InvalidArgument', `invalid path ${JSON.stringify(path)} in a volume`);
  }
}

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

async function* filesBelow(directory: string, prefix = ''): AsyncGenerator<string> {
  for (const entry of await readdir(join(directory, prefix), { withFileTypes: true })) {
    const path = prefix === '' ? entry.name : `${prefix}/${entry.name}`;
    if (entry.isDirectory()) yield* filesBelow(directory, path);
    else yield path;
  }
}

/** Returns true if the directory contains exactly the files of the payload. */
async function isCurrent(directory: string, payload: Payload): Promise<boolean> {
  let seen = 0;
  for await (const path of filesBelow(directory)) {
    const wanted = payload.get(path);
    if (wanted === undefined) return false;
    const { mode } = await stat(join(directory, path));
    if ((mode & 0o777) !== (wanted.mode & 0o777) || !(await readFile(join(directory, path))).equals(wanted.data)) return false;
    seen += 1;
  }
  return seen === payload.size;
}

/** The files to write, and how they are prepared before they become visible. */
export interface AtomicWrite {
  readonly payload: Payload;
  readonly now: number;
  readonly prepare?: (directory: string) => Promise<void> | undefined;
}

/**
 * Writes the payload so that a reader sees either all old or all new files (AtomicWriter upstream): the files are written to a new directory, a
 * rename points the link `..data` to the new directory, and each visible name is a link through `..data`. Returns true if any file changed.
 * `prepare` is called with the new directory before the directory becomes visible.
 */
export async function writeAtomically(target: string, { payload, now, prepare }: AtomicWrite): Promise<boolean> {
  validate(payload);
  await mkdir(target, { recursive: true });
  const current = await currentDirectory(target);
  if (current !== undefined && (await isCurrent(join(target, current), payload).catch(missing))) {
    await showNames(target, payload); // a previous call may have crashed before this step
    return false;
  }
  const stamp = new Date(now).toISOString().slice(0, 19).replaceAll('-', '_').replace('T', '_').replaceAll(':', '_');
  const name = `..${stamp}.${randomBytes(4).readUInt32BE()}`;
  const directory = join(target, name);
  await mkdir(directory, { mode: 0o755 });
  try {
    await chmod(directory, 0o755);
    for (const [path, { data, mode }] of payload) {
      const file = join(directory, path);
      await mkdir(dirname(file), { recursive: true, mode: 0o755 });
      await writeFile(file, data, { flag: 'wx', mode: 0o600 });
      await chmod(file, mode & 0o777);
    }
    await prepare?.(directory);
    await rm(join(target, newDataLink), { force: true });
    await symlink(name, join(target, newDataLink));
    await rename(join(target, newDataLink), join(target, dataLink));
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
  await showNames(target, payload);
  if (current !== undefined && current !== name) await rm(join(target, current), { recursive: true, force: true });
  return true;
}

/**
 * Returns the name of the directory that `..data` points to. Ignores any other link target, because a pod that can write to the volume may have
 * created the link.
 */
async function currentDirectory(target: string): Promise<string | undefined> {
  const entry = await lstat(join(target, dataLink)).catch(missing);
  if (entry && !entry.isSymbolicLink()) await rm(join(target, dataLink), { recursive: true, force: true });
  const name = entry?.isSymbolicLink() ? await readlink(join(target, dataLink)).catch(missing) : undefined;
  if (name === undefined || !payloadDirectory.test(name)) return undefined;
  return (await lstat(join(target, name)).catch(missing))?.isDirectory() ? name : undefined;
}

/** Creates the visible names, which are links for the first part of each path, and removes all other names. */
async function showNames(target: string, payload: Payload): Promise<void> {
  const wanted = new Set([...payload.keys()].map((path) => path.split('/')[0] ?? ''));
  for (const name of wanted) {
    const link = join(target, name);
    const there = await lstat(link).catch(missing);
    if (there?.isSymbolicLink()) continue;
    if (there) await rm(link, { recursive: true, force: true });
    await symlink(join(dataLink, name), link);
  }
  for (const entry of await readdir(target)) {
    if (!entry.startsWith('..') && !wanted.has(entry)) await rm(join(target, entry), { recursive: true, force: true });
  }
}
