import { constants } from 'node:fs';
import { access, mkdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { lockHolder, releaseLock, acquireLock, currentProcess, type LockHolder } from '@oarlock/primitives/os/process-lock';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';

/** The state that a running process writes to its data directory. */
export interface ProcessState extends LockHolder {
  readonly server: string;
  readonly roles: readonly string[];
  readonly ready: boolean;
  /** Time at which the process acquired the data directory, in milliseconds since the epoch. */
  readonly startedAt?: number;
}

const stateFile = (dataDir: string) => join(dataDir, 'process.json');
export const adminKubeconfig = (dataDir: string) => join(dataDir, 'admin.kubeconfig');
export const logFile = (dataDir: string) => join(dataDir, 'oarlock.log');

/** Returns the state of the process that uses a data directory, or undefined if no live process uses it. */
export async function readProcessState(dataDir: string): Promise<ProcessState | undefined> {
  return lockHolder<ProcessState>(stateFile(dataDir));
}

/** Reasons for which a directory is not created; any other one is that the directory above it cannot be written. */
const creationProblems: Readonly<Record<string, string>> = {
  EEXIST: 'a file has this name',
  ENOTDIR: 'a part of its path is a file',
  ENOSPC: 'the disk is full',
};

const nameAnother = 'Name another data directory with `--data-dir DIR`';

/** Returns the problem of a symbolic link to a directory that does not exist, or undefined. */
async function linkProblem(path: string): Promise<string | undefined> {
  try {
    return `it is a link to ${await readlink(path)}, which does not exist`;
  } catch {
    return undefined; // not a link
  }
}

/** The permission of all users to create, rename and remove files of a directory. */
const othersWrite = 0o002;

/** Creates a data directory unless it exists. @throws Error with the reason if it cannot be created or not be written, or if all users can write to it */
export async function createDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    // on a read-only file system Node.js reports ENOENT
    const problem = creationProblems[(error as NodeJS.ErrnoException).code ?? ''] ?? 'the directory above it cannot be written';
    throw new Error(`${dataDir} cannot be created: ${(await linkProblem(dataDir)) ?? problem}. ${nameAnother}`, { cause: error });
  }
  try {
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new Error(`${dataDir} cannot be written: ${fileErrorReason(error)}. ${nameAnother}`, { cause: error });
  }
  const { mode } = await stat(dataDir);
  if ((mode & othersWrite) !== 0)
    throw new Error(`${dataDir} can be written by all users, who could replace its keys: run \`chmod o-w ${dataDir}\`. ${nameAnother}`);
}

const inUse = (dataDir: string, { pid }: LockHolder) =>
  new Error(`${dataDir} is in use by process ${pid}: stop it with \`oarlock down --data-dir ${dataDir}\``);

/** A lock that allows only one process per data directory. */
export class DataDirLock {
  readonly #dataDir: string;
  #state: ProcessState;
  private constructor(dataDir: string, state: ProcessState) {
    this.#dataDir = dataDir;
    this.#state = state;
  }

  /** Checks that the lock can be acquired, without a change. @throws Error if a live process uses the directory */
  static async check(dataDir: string): Promise<void> {
    const holder = await readProcessState(dataDir);
    if (holder !== undefined) throw inUse(dataDir, holder);
  }

  /** Acquires the lock. @throws Error if a live process uses the directory */
  static async acquire(dataDir: string, server: string, roles: readonly string[]): Promise<DataDirLock> {
    await createDataDir(dataDir);
    const state: ProcessState = { ...(await currentProcess()), server, roles, ready: false, startedAt: Date.now() };
    const holder = await acquireLock(stateFile(dataDir), state);
    if (holder !== undefined) throw inUse(dataDir, holder);
    return new DataDirLock(dataDir, state);
  }

  /** Records that the process is ready, and the API server that it uses: that of a node may have changed since the lock was acquired. */
  async ready(server = this.#state.server): Promise<void> {
    this.#state = { ...this.#state, server, ready: true };
    await writeAtomic(stateFile(this.#dataDir), JSON.stringify(this.#state));
  }

  async release(): Promise<void> {
    await releaseLock(stateFile(this.#dataDir));
  }
}
