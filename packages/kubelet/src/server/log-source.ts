import { watch, type FSWatcher } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

const blockSize = 64 * 1024;
/** A record is at most some 16 KiB; what is longer without an end is no log of ours. */
const maxLine = 1024 * 1024;
const newline = 0x0a;

export interface LogSourceOptions {
  readonly path: string;
  /** The last so many lines; absent: all. */
  readonly tailLines?: number | undefined;
  /** Go on with what is written later. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** Resolves when nobody writes to the log any more. */
  readonly ended: Promise<void>;
}

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

/**
 * The lines of a log file, without their newlines, in blocks. Follows by the file system's events, over rotations: what was moved away is read
 * to its end before the new file is.
 */
export async function* logLines({ path, tailLines, follow, signal, ended }: LogSourceOptions): AsyncGenerator<readonly Buffer[]> {
  const changes = follow ? new Changes(path, ended, signal) : undefined;
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, 'r').catch(missing);
    while (handle === undefined && changes && !changes.over) {
      await changes.next();
      handle = await open(path, 'r').catch(missing);
    }
    if (handle === undefined) return;
    let file: FileHandle = handle;
    let position = tailLines === undefined ? 0 : await tailStart(file, tailLines);
    let rest: Buffer = Buffer.alloc(0);
    for (;;) {
      signal.throwIfAborted();
      const over = changes?.over ?? true;
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(blockSize), 0, blockSize, position);
      if (bytesRead > 0) {
        position += bytesRead;
        const { lines, left } = split(rest, buffer.subarray(0, bytesRead));
        rest = left;
        if (lines.length > 0) yield lines;
        continue;
      }
      const next: FileHandle | undefined = changes && (await reopened(path, file));
      if (next) {
        await file.close();
        file = next;
        handle = next;
        position = 0;
        rest = Buffer.alloc(0);
        continue;
      }
      if (over || changes === undefined) break;
      await changes.next();
    }
    if (rest.length > 0) yield [rest];
  } finally {
    changes?.close();
    await handle?.close();
  }
}

function split(rest: Buffer, block: Buffer): { readonly lines: readonly Buffer[]; readonly left: Buffer } {
  const bytes = rest.length === 0 ? block : Buffer.concat([rest, block]);
  const lines: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, from)) {
    lines.push(bytes.subarray(from, at));
    from = at + 1;
  }
  const left = bytes.subarray(from);
  return left.length > maxLine ? { lines: [...lines, left], left: Buffer.alloc(0) } : { lines, left };
}

/** Where the last `count` lines begin. */
async function tailStart(handle: FileHandle, count: number): Promise<number> {
  const { size } = await handle.stat();
  if (count <= 0) return size;
  let found = 0;
  const block = Buffer.allocUnsafe(blockSize);
  for (let end = size; end > 0; ) {
    const length = Math.min(blockSize, end);
    const { bytesRead } = await handle.read(block, 0, length, end - length);
    for (let at = bytesRead - 1; at >= 0; at -= 1) {
      if (block[at] !== newline || end - length + at === size - 1) continue;
      found += 1;
      if (found === count) return end - length + at + 1;
    }
    end -= length;
  }
  return 0;
}

/** The file that is under the path now, when it is another than the one that is open. */
async function reopened(path: string, handle: FileHandle): Promise<FileHandle | undefined> {
  const [there, here] = await Promise.all([stat(path).catch(missing), handle.stat()]);
  return there === undefined || there.ino === here.ino ? undefined : open(path, 'r').catch(missing);
}

/** Wakes a reader when something happens in the file's directory, when the log has ended, or when nobody reads any more. */
class Changes {
  over = false;
  readonly #watcher: FSWatcher;
  #pending = false;
  #wake: (() => void) | undefined;
  readonly #signal: AbortSignal;
  readonly #tell = () => {
    this.#pending = true;
    this.#wake?.();
  };

  constructor(path: string, ended: Promise<void>, signal: AbortSignal) {
    this.#watcher = watch(dirname(path), { persistent: false }, this.#tell);
    this.#watcher.on('error', this.#tell);
    this.#signal = signal;
    signal.addEventListener('abort', this.#tell, { once: true });
    void ended.then(() => {
      this.over = true;
      this.#tell();
    });
  }

  async next(): Promise<void> {
    if (!this.#pending)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    this.#pending = false;
    this.#wake = undefined;
    this.#signal.throwIfAborted();
  }

  close(): void {
    this.#watcher.close();
    this.#signal.removeEventListener('abort', this.#tell);
  }
}
