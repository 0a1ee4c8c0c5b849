import { createHash, randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { readIfExists } from './atomic-file.ts';
import { isProcessGone } from './file-error.ts';

/** The process that holds a lock, as the lock file describes it. */
export interface LockHolder {
  readonly pid: number;
  /** Start time that distinguishes a process from a later one with the same pid: clock ticks since boot on Linux, elsewhere ''. */
  readonly born: string;
}

async function startTimeOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') {
    try {
      process.kill(pid, 0);
      return '';
    } catch (error) {
      return isProcessGone(error) ? undefined : '';
    }
  }
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19]; // field 22 of proc(5), counted after the name
  } catch (error) {
    if (!isProcessGone(error)) throw error;
    return undefined;
  }
}

/** Returns the description of this process for a lock file. */
export async function currentProcess(): Promise<LockHolder> {
  return { pid: process.pid, born: (await startTimeOf(process.pid)) ?? '' };
}

/** Returns the holder that a lock file describes, or undefined if that process is not alive or the file is truncated. */
async function parseLiveHolder<T extends LockHolder>(text: string): Promise<T | undefined> {
  let holder: Partial<T> | null;
  try {
    holder = JSON.parse(text) as Partial<T> | null;
  } catch {
    return undefined;
  }
  return typeof holder?.pid === 'number' && (await startTimeOf(holder.pid)) === holder.born ? (holder as T) : undefined;
}

/** Returns the live process that holds a lock, with all fields of the lock file; undefined if there is none. */
export async function lockHolder<T extends LockHolder>(file: string): Promise<T | undefined> {
  const text = await readIfExists(file);
  return text === undefined ? undefined : parseLiveHolder<T>(text);
}

const succeeds = (call: Promise<void>, unless: 'EEXIST') =>
  call.then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === unless) return false;
      throw error;
    },
  );

/**
 * Tries once to make `lockFile` a hard link to the file `own`.
 *
 * Returns true on success, the live process that holds the lock, or false if another process changed the file in the meantime, so that the caller
 * must try again.
 */
async function claim(lockFile: string, own: string): Promise<LockHolder | boolean> {
  // link(2) is atomic: of several processes that try, one succeeds
  if (await succeeds(link(own, lockFile), 'EEXIST')) return true;
  const content = await readIfExists(lockFile);
  if (content === undefined) return false;
  const holder = await parseLiveHolder(content);
  if (holder !== undefined) return holder;
  // the name depends on the dead holder's content, so that all processes that find it compete for the same takeover file
  const takeover = `${lockFile}.${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;
  const result = await claim(takeover, own);
  if (result !== true) return result;
  try {
    // while this process holds the takeover file, no other process replaces the dead holder's lock
    if ((await readIfExists(lockFile)) !== content) return false;
    const copy = `${own}.place`;
    await link(own, copy);
    await rename(copy, lockFile);
    return true;
  } finally {
    await rm(takeover, { force: true });
  }
}

/**
 * Acquires a lock for this process. The process holds the lock until `releaseLock` or until the process dies.
 *
 * The lock of a dead process is replaced under a second lock, whose name is derived from the content of the dead process's lock file, so that only
 * one of several processes replaces it. The second lock is acquired in the same way, because its holder may die as well. `state` must describe this
 * process (`currentProcess`). Returns undefined if the lock was acquired, otherwise the live process that holds the lock.
 */
export async function acquireLock(file: string, state: LockHolder): Promise<LockHolder | undefined> {
  const own = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  try {
    await writeFile(own, JSON.stringify(state), { mode: 0o600 });
    for (;;) {
      const result = await claim(file, own);
      if (result !== false) return result === true ? undefined : result;
    }
  } finally {
    await rm(own, { force: true });
  }
}

/** Releases a lock that this process holds. */
export async function releaseLock(file: string): Promise<void> {
  await rm(file, { force: true });
}
