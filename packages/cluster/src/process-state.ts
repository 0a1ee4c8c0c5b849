import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { holderOf, releaseLock, takeLock, thisProcess, type Holder } from '@oarlock/kernel/process-lock';
import { writeAtomic } from './files.ts';

/** What a running cluster process writes down about itself in its data directory. */
export interface ProcessState extends Holder {
  readonly server: string;
  readonly roles: readonly string[];
  readonly ready: boolean;
}

const stateFile = (dataDir: string) => join(dataDir, 'process.json');
export const adminKubeconfig = (dataDir: string) => join(dataDir, 'admin.kubeconfig');
export const logFile = (dataDir: string) => join(dataDir, 'oarlock.log');

/** The process that uses a data directory, or undefined when none is alive. */
export async function readState(dataDir: string): Promise<ProcessState | undefined> {
  return holderOf<ProcessState>(stateFile(dataDir));
}

/** One process per data directory. */
export class DataDirLock {
  readonly #dataDir: string;
  #state: ProcessState;
  private constructor(dataDir: string, state: ProcessState) {
    this.#dataDir = dataDir;
    this.#state = state;
  }

  /** @throws Error when a live process has the directory */
  static async take(dataDir: string, server: string, roles: readonly string[]): Promise<DataDirLock> {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const state: ProcessState = { ...(await thisProcess()), server, roles, ready: false };
    const holder = await takeLock(stateFile(dataDir), state);
    if (holder !== undefined)
      throw new Error(`${dataDir} is in use by process ${holder.pid}: stop it with \`oarlock down --data-dir ${dataDir}\``);
    return new DataDirLock(dataDir, state);
  }

  async ready(): Promise<void> {
    this.#state = { ...this.#state, ready: true };
    await writeAtomic(stateFile(this.#dataDir), JSON.stringify(this.#state));
  }

  async release(): Promise<void> {
    await releaseLock(stateFile(this.#dataDir));
  }
}
