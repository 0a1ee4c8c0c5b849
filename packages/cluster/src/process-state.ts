import { createHash, randomBytes } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
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
    try {
      process.kill(pid, 0);
      return '';
    } catch {
      return undefined;
    }
  }
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19]; // field 22 of proc(5), counted after the name
  } catch {
    return undefined;
  }
}

/** The process that a state describes, if it is alive. What a crash cut off describes nobody. */
async function living(text: string): Promise<ProcessState | undefined> {
  let state: Partial<ProcessState>;
  try {
    state = JSON.parse(text) as Partial<ProcessState>;
  } catch {
    return undefined;
  }
  return typeof state.pid === 'number' && (await birthOf(state.pid)) === state.born ? (state as ProcessState) : undefined;
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The process that uses a data directory, or undefined when none is alive. */
export async function readState(dataDir: string): Promise<ProcessState | undefined> {
  const text = await readIfThere(stateFile(dataDir));
  return text === undefined ? undefined : living(text);
}

const inUse = (dataDir: string, { pid }: ProcessState) =>
  new Error(`${dataDir} is in use by process ${pid}: stop it with \`oarlock down --data-dir ${dataDir}\``);
/** Makes `place` a link to the file `own`. False: somebody was quicker, look again. @throws Error when a live process has the place */
async function claim(place: string, own: string, dataDir: string): Promise<boolean> {
  // a link to a whole file is made or not: of several processes that try, one
  if (await succeeds(link(own, place), 'EEXIST')) return true;
  const found = await readIfThere(place);
  if (found === undefined) return false;
  const holder = await living(found);
  if (holder !== undefined) throw inUse(dataDir, holder);
  const right = `${place}.${createHash('sha256').update(found).digest('hex').slice(0, 16)}`;
  if (!(await claim(right, own, dataDir))) return false;
  try {
    // with the right to this dead one's place nobody else changes it
    if ((await readIfThere(place)) !== found) return false;
    const copy = `${own}.place`;
    await link(own, copy);
    await rename(copy, place);
    return true;
  } finally {
    await rm(right, { force: true });
  }
}

const succeeds = (call: Promise<void>, unless: 'EEXIST') =>
  call.then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === unless) return false;
      throw error;
    },
  );

/**
 * One process per data directory: who made the state file has it. A dead holder's place is taken under a claim that names the dead one, so that
 * of many who find it one takes it; a claim whose holder died is a place of its own.
 */
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
    const own = `${stateFile(dataDir)}.${randomBytes(4).toString('hex')}.tmp`;
    const state: ProcessState = { pid: process.pid, born: (await birthOf(process.pid)) ?? '', server, roles, ready: false };
    try {
      await writeFile(own, JSON.stringify(state), { mode: 0o600 });
      while (!(await claim(stateFile(dataDir), own, dataDir)));
      return new DataDirLock(dataDir, state);
    } finally {
      await rm(own, { force: true });
    }
  }

  async ready(): Promise<void> {
    this.#state = { ...this.#state, ready: true };
    await writeAtomic(stateFile(this.#dataDir), JSON.stringify(this.#state));
  }

  async release(): Promise<void> {
    await rm(stateFile(this.#dataDir), { force: true });
  }
}
