import { execFile } from 'node:child_process';
import { closeSync, constants, fchownSync, mkdirSync, openSync, readdirSync, unlinkSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';

/** One pipe between a container and the supervisor. */
export interface Pipe {
  /** The container's end; closed here when it has been handed over. */
  readonly inner: number;
  /** Ours. */
  readonly outer: Socket;
}
export interface Owner {
  readonly uid?: number;
  readonly gid?: number;
}

const stock = 6;

/**
 * Real pipes. What Node makes for a child are sockets, and a program that opens /dev/stdout or /dev/stderr, as shell scripts do, fails on
 * a socket. Node has no call for a pipe, so they are named ones, made ahead of need a few at a time and nameless from the moment they are used.
 */
export class PipeStock {
  readonly #directory: string;
  readonly #mkfifo: string;
  #ready: string[] = [];
  #made = 0;
  #making: Promise<void> | undefined;

  constructor(directory: string, mkfifo: string) {
    this.#directory = directory;
    this.#mkfifo = mkfifo;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const left of readdirSync(directory)) unlinkSync(join(directory, left));
    void this.#make();
  }

  /** For an output of a container. */
  output(owner: Owner): Promise<Pipe> {
    return this.#open((path) => {
      const mine = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      return [openSync(path, constants.O_WRONLY), () => new Socket({ fd: mine, readable: true, writable: false })];
    }, owner);
  }

  /** For the input of a container. */
  input(owner: Owner): Promise<Pipe> {
    return this.#open((path) => {
      const both = openSync(path, constants.O_RDWR); // so that neither of the next two waits for the other
      const theirs = openSync(path, constants.O_RDONLY);
      const mine = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
      closeSync(both);
      return [theirs, () => new Socket({ fd: mine, readable: false, writable: true })];
    }, owner);
  }

  async #open(open: (path: string) => [number, () => Socket], { uid, gid }: Owner): Promise<Pipe> {
    while (this.#ready.length === 0) await this.#make();
    const path = this.#ready.pop() ?? '';
    if (this.#ready.length < stock / 2) void this.#make();
    try {
      const [inner, outer] = open(path);
      if (uid !== undefined) fchownSync(inner, uid, gid ?? uid); // or the container's user could not open /dev/stdout
      return { inner, outer: outer() };
    } finally {
      unlinkSync(path);
    }
  }

  #make(): Promise<void> {
    this.#making ??= new Promise<void>((resolve, reject) => {
      const paths = Array.from({ length: stock }, () => join(this.#directory, String(++this.#made)));
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
    this.#making.catch(() => {}); // whoever needs a pipe tries again and is told
    return this.#making;
  }
}
