import { constants, type Stats } from 'node:fs';
import { lchown, lstat, open, readdir, readlink } from 'node:fs/promises';

/** A Linux flag that Node.js does not export: opens a path without access to its content. With O_NOFOLLOW, a link itself is opened. */
const O_PATH = 0x20_0000;
const slash = Buffer.from('/');
/** Each level of a tree has an open file. Paths of this depth exceed PATH_MAX with names of eight bytes. */
const maxDepth = 512;

/**
 * An entry of a directory tree in which another process may replace names during the call. Outside of Linux, where pods are processes with the files of their
 * user, entries are only named.
 */
export interface OpenedEntry {
  readonly stats: Stats;
  /** Leads to the opened file or directory, whatever has its name now. Not for links, which a system call would follow. */
  readonly path: string;
  /** The name of the entry in its opened directory, for system calls on links that do not follow them. It may have vanished. */
  readonly named: Buffer;
  /** Opens the entries of the directory one after another. Ignores those that do not exist any more. */
  forEach(use: (entry: OpenedEntry, name: Buffer) => Promise<void>): Promise<void>;
}

/**
 * Opens a file, directory or link without following a link in its last component, and its descendants each relative to its opened directory.
 * @throws the system error; Error for a tree that is too deep
 */
export function withOpenedEntry<T>(path: string, use: (entry: OpenedEntry) => Promise<T>): Promise<T> {
  return visit(Buffer.from(path), 0, use);
}

/** Gives a link another owner. Does nothing if its name has vanished. */
export async function changeOwnerOfLink({ named }: OpenedEntry, user: number, group: number): Promise<void> {
  await lchown(named, user, group).catch(ignore('ENOENT'));
}

/** Returns the target of a link; undefined if its name has vanished, or has become that of a file or directory. */
export async function targetOfLink({ named }: OpenedEntry): Promise<Buffer | undefined> {
  return readlink(named, { encoding: 'buffer' }).catch(ignore('ENOENT', 'EINVAL'));
}

const ignore =
  (...codes: readonly string[]) =>
  (error: unknown): undefined => {
    if (!codes.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  };

async function visit<T>(named: Buffer, depth: number, use: (entry: OpenedEntry) => Promise<T>): Promise<T> {
  if (depth > maxDepth) throw new Error(`a directory tree has more than ${maxDepth} levels`);
  if (process.platform !== 'linux') return use(entryAt(named.toString(), { stats: await lstat(named), named, depth }));
  const handle = await open(named, O_PATH | constants.O_NOFOLLOW);
  try {
    return await use(entryAt(`/proc/self/fd/${handle.fd}`, { stats: await handle.stat(), named, depth }));
  } finally {
    await handle.close();
  }
}

function entryAt(path: string, { stats, named, depth }: Pick<OpenedEntry, 'stats' | 'named'> & { readonly depth: number }): OpenedEntry {
  return {
    stats,
    path,
    named,
    async forEach(use) {
      for (const name of await readdir(path, { encoding: 'buffer' })) {
        let opened = false;
        try {
          await visit(Buffer.concat([Buffer.from(path), slash, name]), depth + 1, (entry) => {
            opened = true;
            return use(entry, name);
          });
        } catch (error) {
          if (opened || (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        }
      }
    },
  };
}
