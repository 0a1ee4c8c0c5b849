import { readFile, statfs } from 'node:fs/promises';

/** The resource usage of the machine at one moment, in bytes and nanoseconds. */
export interface NodeUsage {
  readonly at: number;
  readonly cpuNanos: number;
  readonly memoryTotal: number;
  readonly memoryAvailable: number;
  readonly memoryUsage: number;
  readonly swapUsage: number;
  readonly swapTotal: number;
  readonly processes: number;
  readonly maxProcesses: number;
  readonly interfaces: readonly NetworkUsage[];
}
export interface NetworkUsage {
  readonly name: string;
  readonly rxBytes: number;
  readonly rxErrors: number;
  readonly txBytes: number;
  readonly txErrors: number;
}
export interface DiskUsage {
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly usedBytes: number;
  readonly inodes: number;
  readonly inodesFree: number;
  readonly inodesUsed: number;
}

/** The ticks per second of /proc/stat; 100 on every Linux platform that Node.js supports. */
const ticksPerSecond = 100;
const textOf = (file: string) => readFile(file, 'utf8').catch(() => '');

export async function nodeUsage(now: number): Promise<NodeUsage> {
  const [stat, meminfo, loadavg, pidMax, net] = await Promise.all(
    ['/proc/stat', '/proc/meminfo', '/proc/loadavg', '/proc/sys/kernel/pid_max', '/proc/net/dev'].map(textOf),
  );
  const amount = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(meminfo ?? '')?.[1] ?? 0) * 1024;
  // user nice system idle iowait irq softirq steal
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = (/^cpu\s+(.*)$/m.exec(stat ?? '')?.[1] ?? '')
    .split(/\s+/)
    .map(Number);
  return {
    at: now,
    cpuNanos: ((user + nice + system + irq + softirq + steal) * 1e9) / ticksPerSecond,
    memoryTotal: amount('MemTotal'),
    memoryAvailable: amount('MemAvailable'),
    memoryUsage: amount('MemTotal') - amount('MemFree'),
    swapTotal: amount('SwapTotal'),
    swapUsage: amount('SwapTotal') - amount('SwapFree'),
    processes: Number(/\/(\d+)/.exec(loadavg ?? '')?.[1] ?? 0),
    maxProcesses: Number(pidMax?.trim() || 0),
    interfaces: interfacesOf(net ?? ''),
  };
}

/** Parses a table in the format of `/proc/net/dev`, and omits the loopback interface. */
export function interfacesOf(table: string): readonly NetworkUsage[] {
  return [...table.matchAll(/^\s*([^:\s]+):\s*(.+)$/gm)].flatMap(([, name = '', numbers = '']) => {
    const [rxBytes = 0, , rxErrors = 0, , , , , , txBytes = 0, , txErrors = 0] = numbers.trim().split(/\s+/).map(Number);
    return name === 'lo' ? [] : [{ name, rxBytes, rxErrors, txBytes, txErrors }];
  });
}

/** Returns the usage of the file system that contains the path; undefined if the path does not exist. */
export async function diskUsage(path: string): Promise<DiskUsage | undefined> {
  const found = await statfs(path).catch(() => undefined);
  if (found === undefined) return undefined;
  const { bsize, blocks, bavail, bfree, files, ffree } = found;
  return {
    capacityBytes: blocks * bsize,
    availableBytes: bavail * bsize,
    usedBytes: (blocks - bfree) * bsize,
    inodes: files,
    inodesFree: ffree,
    inodesUsed: files - ffree,
  };
}
