import { readdir, readFile, stat } from 'node:fs/promises';

/** A process of this machine. The start time distinguishes it from a later process with the same id. */
export interface FoundProcess {
  readonly pid: number;
  readonly startTime: string;
  readonly command: readonly string[];
}

/** Returns the start time of a process in clock ticks since boot, or undefined if it has ended. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]; // field 22 of proc(5), counted after the name
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Returns the process of this user whose command line has an argument, or undefined. */
export async function findProcess(argument: string): Promise<FoundProcess | undefined> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const found = await describe(Number(entry), argument);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function describe(pid: number, argument: string): Promise<FoundProcess | undefined> {
  try {
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
    if (!command.includes(argument) || (await stat(`/proc/${pid}`)).uid !== process.getuid?.()) return undefined;
    const startTime = await startTimeOf(pid);
    return startTime === undefined ? undefined : { pid, startTime, command };
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

const isGone = (error: unknown): boolean => ['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '');
