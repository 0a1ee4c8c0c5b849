import { watch, type FSWatcher } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

const blockSize = 64 * 1024;
/** The maximum length of a line. A CRI record has at most about 16 KiB, so a longer line does not belong to a CRI log. */
const maxLine = 1024 * 1024;
const newline = 0x0a;

export interface ReadLogOptions {
  readonly path: string;
  /** The number of last lines to read; undefined for all lines. */
  readonly tailLines?: number | undefined;
  /** True to continue with lines that are written later. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** Resolves when the container no longer writes to the log. */
  readonly ended: Promise<void>;
}

const missing = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
  throw error;
};

/**
 * Yields the lines of a log file without newlines, in blocks. With `follow`, waits for file system events; after a rotation the rotated file is
 * read to its end before the new file.
 */
export async function* readLogLines({ path, tailLines, follow, signal, ended }: ReadLogOptions): AsyncGenerator<readonly Buffer[]> {
  const changes = follow ? new LogFileWatcher(path, ended, signal) : undefined;
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
      const next: FileHandle | undefined = changes && (await openIfReplaced(path, file));
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

/** Returns the offset at which the last `count` lines start. */
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

/** Opens the file at the path if it is not the file that is already open, for example after a rotation. */
async function openIfReplaced(path: string, handle: FileHandle): Promise<FileHandle | undefined> {
  const [there, here] = await Promise.all([stat(path).catch(missing), handle.stat()]);
  return there === undefined || there.ino === here.ino ? undefined : open(path, 'r').catch(missing);
}

/** Resolves a reader's wait after a change in the file's directory, when the log ends, and when the signal aborts. */
class LogFileWatcher {
  over = false;
  readonly #watcher: FSWatcher;
  #pending = false;
  #wake: (() => void) | undefined;
  readonly #signal: AbortSignal;
  readonly #onChange = () => {
    this.#pending = true;
    this.#wake?.();
  };

  constructor(path: string, ended: Promise<void>, signal: AbortSignal) {
    this.#watcher = watch(dirname(path), { persistent: false }, this.#onChange);
    this.#watcher.on('error', this.#onChange);
    this.#signal = signal;
    signal.addEventListener('abort', this.#onChange, { once: true });
    void ended.then(() => {
      this.over = true;
      this.#onChange();
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
    this.#signal.removeEventListener('abort', this.#onChange);
  }
}
