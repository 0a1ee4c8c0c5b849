import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export interface WriteAtomicOptions {
  /** File mode; 0600 if absent. */
  readonly mode?: number;
  /**
   * Path of the temporary file, in the same directory. The default is a random name, which concurrent writers require. After a crash, the temporary
   * file may remain; a single writer can use a fixed name, to overwrite or remove it.
   */
  readonly temporary?: string;
  /** Whether the content is on the disk before the rename, and the rename before the end: a power failure leaves the old or the new content. Default false. */
  readonly sync?: boolean;
}

/**
 * Writes a file through a temporary file and a rename, so that a reader sees the old content or the new content, never a part. The temporary file is
 * removed if a step fails: on a full disk it would take the space that another attempt needs.
 * @throws Error that names the file, with the code of the system error
 */
export async function writeAtomic(
  file: string,
  content: string,
  { mode = 0o600, temporary: fixed, sync = false }: WriteAtomicOptions = {},
): Promise<void> {
  const temporary = fixed ?? `${file}.${randomBytes(4).toString('hex')}.tmp`;
  const handle = await open(temporary, fixed === undefined ? 'wx' : 'w', mode);
  try {
    try {
      await handle.writeFile(content);
      if (sync) await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    if (sync) await syncDirectory(dirname(file));
  } catch (error) {
    await rm(temporary, { force: true });
    const { message, code } = error as NodeJS.ErrnoException;
    throw Object.assign(new Error(`${file} cannot be written: ${message}`, { cause: error }), { code });
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Returns the content of a file as UTF-8, or undefined if the file does not exist. */
export async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
