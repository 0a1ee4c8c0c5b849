import { mkdir, open, readdir, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { LogPosition } from './log-records.ts';

const tailBytes = 64 * 1024;

/** The log file of a container, at the path that the kubelet reads. Calls must not overlap. */
export class LogFile {
  readonly path: string;
  #handle: FileHandle;

  private constructor(path: string, handle: FileHandle) {
    this.path = path;
    this.#handle = handle;
  }

  static async open(path: string): Promise<LogFile> {
    return new LogFile(path, await create(path));
  }

  async append(bytes: Buffer): Promise<void> {
    await this.#handle.appendFile(bytes);
  }

  /** Opens a new file of the same name, after the kubelet has renamed the old file. */
  async reopen(): Promise<void> {
    const fresh = await create(this.path);
    await this.#handle.close();
    this.#handle = fresh;
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** Returns the position of the last record, including rotated files; undefined if there is none. Truncates an incomplete last line. */
  async position(): Promise<LogPosition | undefined> {
    const own = await lastLines(this.#handle, true);
    if (own) return own;
    const names = (await readdir(dirname(this.path))).filter(
      (name) => name.startsWith(`${basename(this.path)}.`) && !/\.(gz|tmp)$/.test(name),
    );
    const newest = names.sort().at(-1);
    if (newest === undefined) return undefined;
    const rotated = await open(join(dirname(this.path), newest), 'r');
    try {
      return await lastLines(rotated, false);
    } finally {
      await rotated.close();
    }
  }
}

async function create(path: string): Promise<FileHandle> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 });
  return open(path, 'a+', 0o640);
}

async function lastLines(handle: FileHandle, repair: boolean): Promise<LogPosition | undefined> {
  const { size } = await handle.stat();
  const from = Math.max(0, size - tailBytes);
  const tail = Buffer.alloc(size - from);
  await handle.read(tail, 0, tail.length, from);
  const end = tail.lastIndexOf(0x0a) + 1;
  if (repair && end < tail.length) await handle.truncate(from + end);
  const times = tail
    .toString('latin1', 0, end)
    .split('\n')
    .slice(0, -1)
    .map((line) => line.slice(0, line.indexOf(' ')));
  const time = times.at(-1);
  return time === undefined ? undefined : { time, count: times.filter((each) => each === time).length };
}
