import { createHash, randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';

/** Who holds a lock, as its file says. */
export interface Holder {
  readonly pid: number;
  /** Tells a process from a later one with the same number: kernel ticks since boot on Linux, else ''. */
  readonly born: string;
}

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

/** This process, as a lock's file names it. */
export async function thisProcess(): Promise<Holder> {
  return { pid: process.pid, born: (await birthOf(process.pid)) ?? '' };
}

/** Who a lock's file describes, if that process is alive. What a crash cut off describes nobody. */
async function living<T extends Holder>(text: string): Promise<T | undefined> {
  let holder: Partial<T> | null;
  try {
    holder = JSON.parse(text) as Partial<T> | null;
  } catch {
    return undefined;
  }
  return typeof holder?.pid === 'number' && (await birthOf(holder.pid)) === holder.born ? (holder as T) : undefined;
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The live process that has a lock's file, and what else it wrote there; undefined when there is none. */
export async function holderOf<T extends Holder>(file: string): Promise<T | undefined> {
  const text = await readIfThere(file);
  return text === undefined ? undefined : living<T>(text);
}

const succeeds = (call: Promise<void>, unless: 'EEXIST') =>
  call.then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === unless) return false;
      throw error;
    },
  );

/** Makes `place` a link to the file `own`. Returns a live process that has the place. False: somebody was quicker, look again. */
async function claim(place: string, own: string): Promise<Holder | boolean> {
  // a link to a whole file is made or not: of several processes that try, one
  if (await succeeds(link(own, place), 'EEXIST')) return true;
  const found = await readIfThere(place);
  if (found === undefined) return false;
  const holder = await living(found);
  if (holder !== undefined) return holder;
  const right = `${place}.${createHash('sha256').update(found).digest('hex').slice(0, 16)}`;
  const given = await claim(right, own);
  if (given !== true) return given;
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

/**
 * One process per file: who made it has it, until it removes it or dies. A dead holder's place is taken under a claim that names the dead
 * one, so that of many who find it one takes it; a claim whose holder died is a place of its own.
 * Returns the live process that has it; undefined: this one does, and the file says so. `state` must say who this process is.
 */
export async function takeLock(file: string, state: Holder): Promise<Holder | undefined> {
  const own = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  try {
    await writeFile(own, JSON.stringify(state), { mode: 0o600 });
    for (;;) {
      const outcome = await claim(file, own);
      if (outcome !== false) return outcome === true ? undefined : outcome;
    }
  } finally {
    await rm(own, { force: true });
  }
}

/** Gives a lock back. */
export async function releaseLock(file: string): Promise<void> {
  await rm(file, { force: true });
}
