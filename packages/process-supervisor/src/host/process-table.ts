import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { isProcessGone } from '@oarlock/primitives/os/file-error';

/** A process in /proc/PID/stat. Times are in clock ticks (1/100 s), memory in pages. */
export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  /** CPU time of the process and of its children that it waited for. */
  readonly ticks: number;
  readonly residentPages: number;
}

/** USER_HZ; the same on every Linux that Node runs on. */
const nanosPerTick = 10_000_000;

let page: number | undefined;
/** Returns the page size, 4 KiB on most machines: the ratio of this process's memory in bytes (Node) and in pages (kernel). */
export function pageBytes(): number {
  if (page === undefined) {
    const pages = Number(readFileSync('/proc/self/statm', 'latin1').split(' ')[1] ?? 1);
    page = 2 ** Math.round(Math.log2(process.memoryUsage.rss() / pages));
  }
  return page;
}

let boot: string | undefined;
/** Returns an id of the current boot of the machine; `unknown` on a Linux whose /proc does not have it. */
export function bootId(): string {
  boot ??= process.platform === 'linux' ? linuxBootId() : bsdBootTime();
  return boot;
}

function linuxBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch (error) {
    // any other error would make each record of a process look like one of an earlier boot
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'unknown';
    throw error;
  }
}

const bsdBootTime = () => execFileSync('/usr/sbin/sysctl', ['-n', 'kern.boottime'], { encoding: 'utf8', timeout: 5000 }).trim();

/** Returns the start time of a process, in a form that distinguishes it from others with the same pid; undefined if it does not exist or is a zombie. */
export function startTime(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux')
      return execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', timeout: 5000 }).trim() || undefined;
    const fields = statFields(readFileSync(`/proc/${pid}/stat`, 'latin1'));
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch (error) {
    if (process.platform === 'linux' && !isProcessGone(error)) throw error;
    return undefined;
  }
}

/** Returns the fields after the program name, which may contain any character. The first is the state. */
function statFields(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Returns all processes of the machine. Linux only; elsewhere empty. */
export async function allProcesses(): Promise<readonly ProcessInfo[]> {
  const found = await Promise.all(
    (await pids()).map(async (pid): Promise<ProcessInfo | undefined> => {
      const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined); // exited in the meantime
      if (stat === undefined) return undefined;
      const field = statFields(stat);
      const number = (index: number) => Number(field[index] ?? 0);
      return {
        pid: Number(pid),
        parent: number(1),
        session: number(3),
        ticks: number(11) + number(12) + number(13) + number(14),
        residentPages: number(21),
      };
    }),
  );
  return found.filter((info) => info !== undefined);
}

/** Returns the processes of a container: those of its leader's session, and their descendants. */
export function processesOf(leader: number, all: readonly ProcessInfo[]): readonly ProcessInfo[] {
  const children = groupByParent(all);
  const members = new Map<number, ProcessInfo>();
  const visit = (info: ProcessInfo) => {
    if (members.has(info.pid)) return;
    members.set(info.pid, info);
    for (const child of children.get(info.pid) ?? []) visit(child);
  };
  for (const info of all) if (info.pid === leader || info.session === leader) visit(info);
  return [...members.values()];
}

/**
 * Returns the CPU time of processes. Ticks cover all threads and children, in steps of 10 ms; the scheduler's value is exact, but only for the
 * first thread. The larger value is more accurate.
 */
export async function cpuNanos(processes: readonly ProcessInfo[]): Promise<number> {
  const each = await Promise.all(
    processes.map(async ({ pid, ticks }) => {
      const exact = Number((await readFile(`/proc/${pid}/schedstat`, 'latin1').catch(() => '')).split(' ')[0] ?? 0); // not in every kernel
      return Math.max(ticks * nanosPerTick, exact);
    }),
  );
  return each.reduce((sum, nanos) => sum + nanos, 0);
}

function groupByParent(all: readonly ProcessInfo[]): Map<number, ProcessInfo[]> {
  const groups = new Map<number, ProcessInfo[]>();
  for (const info of all) {
    const group = groups.get(info.parent);
    if (group) group.push(info);
    else groups.set(info.parent, [info]);
  }
  return groups;
}

/** Returns the processes whose initial environment has one of these variables (`NAME=value`), by variable. Processes of other users are not readable. */
export async function processesByEnvironment(settings: ReadonlySet<string>): Promise<ReadonlyMap<string, readonly number[]>> {
  const name = [...settings][0]?.split('=')[0];
  const found = new Map<string, number[]>();
  if (name === undefined) return found;
  await Promise.all(
    (await pids()).map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''); // exited, or another user's
      const start = environment.startsWith(`${name}=`) ? 0 : environment.indexOf(`\0${name}=`) + 1;
      if (start === 0 && !environment.startsWith(`${name}=`)) return;
      const end = environment.indexOf('\0', start);
      const setting = environment.slice(start, end < 0 ? undefined : end);
      if (settings.has(setting)) found.set(setting, [...(found.get(setting) ?? []), Number(pid)]);
    }),
  );
  return found;
}

async function pids(): Promise<string[]> {
  if (process.platform !== 'linux') return [];
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
}

/** Returns the direct children of a process. Linux only. */
export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .split(' ')
      .filter((word) => word !== '')
      .map(Number);
  } catch {
    return [];
  }
}
