import { readFile, rm, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomic } from './keys.ts';

/** What a running cluster process writes down about itself in its data directory. */
export interface ProcessState {
  readonly pid: number;
  /** Tells our process from a later one with the same number: kernel ticks since boot on Linux, else ''. */
  readonly born: string;
  readonly server: string;
  readonly roles: readonly string[];
  readonly ready: boolean;
}

const stateFile = (dataDir: string) => join(dataDir, 'process.json');
export const adminKubeconfig = (dataDir: string) => join(dataDir, 'admin.kubeconfig');
export const logFile = (dataDir: string) => join(dataDir, 'oarlock.log');

async function birthOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') {
    try { process.kill(pid, 0); return ''; } catch { return undefined; }
  }
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19]; // field 22 of proc(5), counted after the name
  } catch {
    return undefined;
  }
}

/** The process that uses a data directory, or undefined when none is alive. */
export async function readState(dataDir: string): Promise<ProcessState | undefined> {
  let text: string;
  try {
    text = await readFile(stateFile(dataDir), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const state = JSON.parse(text) as ProcessState;
  return await birthOf(state.pid) === state.born ? state : undefined;
}

/** One process per data directory. */
export class DataDirLock {
  readonly #dataDir: string;
  #state: ProcessState;
  private constructor(dataDir: string, state: ProcessState) { this.#dataDir = dataDir; this.#state = state; }

  /** @throws Error when a live process has the directory */
  static async take(dataDir: string, server: string, roles: readonly string[]): Promise<DataDirLock> {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const other = await readState(dataDir);
    if (other !== undefined) throw new Error(`${dataDir} is in use by process ${other.pid}: stop it with \`oarlock down --data-dir ${dataDir}\``);
    // two that start at the same moment: only one creates the file
    const guard = `${stateFile(dataDir)}.lock`;
    const handle = await open(guard, 'wx', 0o600).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
      const holder = Number(await readFile(guard, 'utf8').catch(() => ''));
      if (holder > 0 && await birthOf(holder) !== undefined && holder !== process.pid) throw new Error(`${dataDir} is being started by process ${holder}`);
      await rm(guard, { force: true });
      return open(guard, 'wx', 0o600);
    });
    try {
      await handle.writeFile(String(process.pid));
      const lock = new DataDirLock(dataDir, { pid: process.pid, born: await birthOf(process.pid) ?? '', server, roles, ready: false });
      await lock.#write();
      return lock;
    } finally {
      await handle.close();
      await rm(guard, { force: true });
    }
  }

  async ready(): Promise<void> {
    this.#state = { ...this.#state, ready: true };
    await this.#write();
  }

  async release(): Promise<void> { await rm(stateFile(this.#dataDir), { force: true }); }

  #write(): Promise<void> { return writeAtomic(stateFile(this.#dataDir), JSON.stringify(this.#state)); }
}
