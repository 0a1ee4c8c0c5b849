import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';

/** One process, as /proc/PID/stat has it. Times in clock ticks (1/100 s), memory in pages. */
export interface ProcessInfo {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  /** Own and those of children that were waited for. */
  readonly ticks: number;
  readonly residentPages: number;
}

/** USER_HZ; the same on every Linux that Node runs on. */
const nanosPerTick = 10_000_000;

let page: number | undefined;
/** 4 KiB on most machines; told from what the kernel and Node say about this process. */
export function pageBytes(): number {
  if (page === undefined) {
    const pages = Number(readFileSync('/proc/self/statm', 'latin1').split(' ')[1] ?? 1);
    page = 2 ** Math.round(Math.log2(process.memoryUsage.rss() / pages));
  }
  return page;
}

let boot: string | undefined;
/** Names this run of the machine's kernel. */
export function bootId(): string {
  if (boot === undefined) {
    try {
      boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    } catch {
      boot =
        process.platform === 'linux'
          ? 'unknown'
          : execFileSync('/usr/sbin/sysctl', ['-n', 'kern.boottime'], { encoding: 'utf8', timeout: 5000 }).trim();
    }
  }
  return boot;
}

/** When a process began, in whatever form tells two processes of one number apart; undefined when there is none. Zombies count as ended. */
export function startTime(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux')
      return execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', timeout: 5000 }).trim() || undefined;
    const fields = statFields(readFileSync(`/proc/${pid}/stat`, 'latin1'));
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** The fields behind the program's name, which may hold anything. The first is the state. */
function statFields(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Every process of the machine. Linux; elsewhere empty. */
export async function allProcesses(): Promise<readonly ProcessInfo[]> {
  const found = await Promise.all(
    (await pids()).map(async (pid): Promise<ProcessInfo | undefined> => {
      const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined); // ended meanwhile
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
  return found.filter((one) => one !== undefined);
}

/** What runs below and beside a container's first process. */
export function processesOf(leader: number, all: readonly ProcessInfo[]): readonly ProcessInfo[] {
  const children = groupByParent(all);
  const members = new Map<number, ProcessInfo>();
  const visit = (one: ProcessInfo) => {
    if (members.has(one.pid)) return;
    members.set(one.pid, one);
    for (const child of children.get(one.pid) ?? []) visit(child);
  };
  for (const one of all) if (one.pid === leader || one.session === leader) visit(one);
  return [...members.values()];
}

/**
 * The CPU time of processes. Ticks count all threads and children, in steps of 10 ms; the scheduler's figure is exact, but of the
 * first thread only: the larger one is nearer.
 */
export async function cpuNanos(processes: readonly ProcessInfo[]): Promise<number> {
  const each = await Promise.all(
    processes.map(async ({ pid, ticks }) => {
      const exact = Number((await readFile(`/proc/${pid}/schedstat`, 'latin1').catch(() => '')).split(' ')[0] ?? 0); // a kernel may be built without
      return Math.max(ticks * nanosPerTick, exact);
    }),
  );
  return each.reduce((sum, one) => sum + one, 0);
}

function groupByParent(all: readonly ProcessInfo[]): Map<number, ProcessInfo[]> {
  const groups = new Map<number, ProcessInfo[]>();
  for (const one of all) {
    const group = groups.get(one.parent);
    if (group) group.push(one);
    else groups.set(one.parent, [one]);
  }
  return groups;
}

/** Processes whose environment at their start had one of these settings (`NAME=value`), by setting. Those of other users are not seen. */
export async function processesByEnvironment(settings: ReadonlySet<string>): Promise<ReadonlyMap<string, readonly number[]>> {
  const name = [...settings][0]?.split('=')[0];
  const found = new Map<string, number[]>();
  if (name === undefined) return found;
  await Promise.all(
    (await pids()).map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''); // ended, or not ours
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

/** The children of a process that a tool such as `script` starts. Linux. */
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
