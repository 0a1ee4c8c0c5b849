import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, mkdtemp, rm, statfs } from 'node:fs/promises';
import { createServer, connect as connectSocket } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { readIfExists } from '@oarlock/primitives/os/atomic-file';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';

const timeoutMs = 10_000;

export interface ProgramResult {
  readonly code: number;
  readonly stdout: string;
  /** The last line that the program wrote to stderr, or why it did not run. */
  readonly problem: string;
}

export interface Space {
  readonly bytes: number;
  readonly freeBytes: number;
  /** Zero on file systems without a limit of inodes. */
  readonly inodes: number;
  readonly freeInodes: number;
}

/** What checks read from a machine. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly nodeVersion: string;
  readonly root: boolean;
  readonly userName: string;
  readonly now: number;
  /** Returns the content of a file, or undefined if it does not exist. */
  readText(path: string): Promise<string | undefined>;
  exists(path: string): Promise<boolean>;
  isWritable(path: string): Promise<boolean>;
  /** Returns the path of a program in the directories of the system, or undefined. */
  findProgram(name: string): string | undefined;
  /** Runs a program until it ends or a timeout. Never rejects. */
  run(program: string, args: readonly string[]): Promise<ProgramResult>;
  /** Connects to a unix socket. Returns the code of the error, such as `ENOENT`, or undefined. */
  connect(socket: string): Promise<string | undefined>;
  /** Listens on a TCP port for a moment. Returns the code of the error, such as `EADDRINUSE`, or undefined. */
  listen(port: number): Promise<string | undefined>;
  space(directory: string): Promise<Space>;
  /** Calls `work` with a new directory below `parent`, and removes the directory. */
  withDirectory<T>(parent: string, work: (directory: string) => Promise<T>): Promise<T>;
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? 'UNKNOWN';
const canAccess = (path: string, mode: number) =>
  access(path, mode).then(
    () => true,
    () => false,
  );

/** The machine on which this process runs. */
export const thisMachine = (): Machine => ({
  platform: process.platform,
  nodeVersion: process.version,
  root: process.getuid?.() === 0,
  userName: userName(),
  now: Date.now(),
  readText: readIfExists,
  exists: (path) => canAccess(path, constants.F_OK),
  isWritable: (path) => canAccess(path, constants.W_OK),
  findProgram,
  run: runProgram,
  connect: (path) => firstEvent(connectSocket({ path, timeout: timeoutMs }), 'connect', (socket) => socket.destroy()),
  listen: (port) => firstEvent(createServer().listen({ port, exclusive: true }), 'listening', (server) => server.close()),
  async space(directory) {
    const { bsize, blocks, bavail, files, ffree } = await statfs(directory);
    return { bytes: bsize * blocks, freeBytes: bsize * bavail, inodes: files, freeInodes: ffree };
  },
  async withDirectory(parent, work) {
    const directory = await mkdtemp(join(parent, '.oarlock-doctor-'));
    try {
      return await work(directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
});

/** Returns the name of the user; an id without an account, as in containers, is its own name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? '');
  }
}

/** Runs a program with messages in English. */
function runProgram(program: string, args: readonly string[]): Promise<ProgramResult> {
  return new Promise((resolve) => {
    execFile(program, [...args], { timeout: timeoutMs, env: { ...process.env, LC_ALL: 'C' } }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 127;
      const fallback = error === null ? '' : error.killed ? `no answer within ${timeoutMs / 1000} s` : error.message;
      resolve({ code, stdout, problem: stderr.trim().split('\n').at(-1) || fallback });
    });
  });
}

interface Endpoint {
  once(event: string, listener: (value: unknown) => void): unknown;
}

function firstEvent<T extends Endpoint>(endpoint: T, success: string, close: (endpoint: T) => unknown): Promise<string | undefined> {
  return new Promise((resolve) => {
    endpoint.once('error', (error) => resolve(codeOf(error)));
    endpoint.once('timeout', () => {
      close(endpoint);
      resolve('ETIMEDOUT');
    });
    endpoint.once(success, () => {
      close(endpoint);
      resolve(undefined);
    });
  });
}
