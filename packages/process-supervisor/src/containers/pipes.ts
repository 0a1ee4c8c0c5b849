import { execFile } from 'node:child_process';
import { closeSync, constants, fchownSync, mkdirSync, openSync, readdirSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';

/** A pipe between a container and the supervisor. */
export interface Pipe {
  /** The container's end; the supervisor closes it after the spawn. */
  readonly inner: number;
  /** The supervisor's end. */
  readonly outer: Socket;
}
export interface PipeOwner {
  readonly uid?: number;
  readonly gid?: number;
}

const stockSize = 6;

/**
 * Creates pipes for containers. Node creates sockets for a child, and a program that opens /dev/stdout or /dev/stderr, as shell scripts do, fails on
 * a socket. Node cannot create a pipe, so these are named pipes, created ahead in batches and unlinked when they are opened.
 */
export class PipeStock {
  readonly #directory: string;
  readonly #mkfifo: string;
  #ready: string[] = [];
  #created = 0;
  #making: Promise<void> | undefined;

  constructor(directory: string, mkfifo: string) {
    this.#directory = directory;
    this.#mkfifo = mkfifo;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(directory)) unlinkSync(join(directory, name));
    void this.#make();
  }

  /** Returns a pipe for an output of a container. */
  output(owner: PipeOwner): Promise<Pipe> {
    return this.#open((path) => {
      const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      return [openSync(path, constants.O_WRONLY), () => new Socket({ fd: readEnd, readable: true, writable: false })];
    }, owner);
  }

  /** Returns a pipe for the input of a container. */
  input(owner: PipeOwner): Promise<Pipe> {
    return this.#open((path) => {
      const both = openSync(path, constants.O_RDWR); // so that neither of the next two calls blocks
      const readEnd = openSync(path, constants.O_RDONLY);
      const writeEnd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
      closeSync(both);
      return [readEnd, () => new Socket({ fd: writeEnd, readable: false, writable: true })];
    }, owner);
  }

  async #open(open: (path: string) => [number, () => Socket], { uid, gid }: PipeOwner): Promise<Pipe> {
    while (this.#ready.length === 0) await this.#make();
    const path = this.#ready.pop() ?? '';
    if (this.#ready.length < stockSize / 2) void this.#make();
    try {
      const [inner, outer] = open(path);
      if (uid !== undefined) fchownSync(inner, uid, gid ?? uid); // otherwise the container's user could not open /dev/stdout
      return { inner, outer: outer() };
    } finally {
      unlinkSync(path);
    }
  }

  #make(): Promise<void> {
    this.#making ??= new Promise<void>((resolve, reject) => {
      const paths = Array.from({ length: stockSize }, () => join(this.#directory, String(++this.#created)));
      execFile(this.#mkfifo, ['-m', '600', ...paths], { timeout: 10_000 }, (error) => {
        this.#making = undefined;
        if (error) {
          reject(error);
          return;
        }
        this.#ready.push(...paths);
        resolve();
      });
    });
    this.#making.catch(() => {}); // the caller that needs a pipe retries and receives the error
    return this.#making;
  }
}
