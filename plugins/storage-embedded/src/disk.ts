import { close, constants, fdatasync, fstat, ftruncate, open, read, write } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';

/** An open file. Errors are system errors with their codes. */
export interface DiskFile {
  /** Writes all bytes. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Reads until the buffer is full or the file ends. Resolves with the number of bytes. */
  read(bytes: Uint8Array, position: number): Promise<number>;
  size(): Promise<number>;
  truncate(size: number): Promise<void>;
  /** Resolves when everything written is on the disk (fdatasync). */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** An open directory. It needs no further file descriptor to be synced. */
export interface DiskDirectory {
  readonly path: string;
  /** Resolves when created, renamed and removed names of the directory are on the disk. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The file system operations that the store uses; tests inject faults here. */
export interface Disk {
  /** Creates a directory with mode 0700 if it is absent. */
  createDirectory(path: string): Promise<void>;
  openDirectory(path: string): Promise<DiskDirectory>;
  list(path: string): Promise<readonly string[]>;
  /**
   * `append`: for writing; created with mode 0600 if absent; data is on the disk when `write` resolves (O_DSYNC). `create`: a new empty file,
   * without O_DSYNC.
   */
  open(path: string, mode: 'read' | 'append' | 'create'): Promise<DiskFile>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

const { O_CREAT, O_DSYNC, O_RDONLY, O_RDWR, O_TRUNC } = constants;
const flags = { read: O_RDONLY, append: O_RDWR | O_CREAT | O_DSYNC, create: O_RDWR | O_CREAT | O_TRUNC };
const openFile = promisify(open);

export const systemDisk: Disk = {
  async createDirectory(path) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  },
  async openDirectory(path) {
    const directory = new SystemFile(await openFile(path, O_RDONLY));
    return { path, sync: () => directory.sync(), close: () => directory.close() };
  },
  list: (path) => readdir(path),
  async open(path, mode) {
    return new SystemFile(await openFile(path, flags[mode], 0o600));
  },
  rename,
  remove: (path) => rm(path, { force: true }),
};

/** Uses the callback API of node:fs, because it is faster, and every commit waits for it. */
class SystemFile implements DiskFile {
  readonly #fd: number;
  constructor(fd: number) {
    this.#fd = fd;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const rest = (from: number): void =>
        write(this.#fd, bytes, from, bytes.length - from, position + from, (error, bytesWritten) => {
          if (error) reject(error);
          else if (from + bytesWritten < bytes.length) rest(from + bytesWritten);
          else resolve();
        });
      rest(0);
    });
  }

  read(bytes: Uint8Array, position: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const rest = (from: number): void =>
        read(this.#fd, bytes, from, bytes.length - from, position + from, (error, count) => {
          if (error) reject(error);
          else if (count > 0 && from + count < bytes.length) rest(from + count);
          else resolve(from + count);
        });
      rest(0);
    });
  }

  async size(): Promise<number> {
    return (await promisify(fstat)(this.#fd)).size;
  }
  truncate(size: number): Promise<void> {
    return promisify(ftruncate)(this.#fd, size);
  }
  sync(): Promise<void> {
    return promisify(fdatasync)(this.#fd);
  }
  close(): Promise<void> {
    return promisify(close)(this.#fd);
  }
}
