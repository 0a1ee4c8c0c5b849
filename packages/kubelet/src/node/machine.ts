import { readFile, statfs } from 'node:fs/promises';
import { arch, cpus, freemem, networkInterfaces, release, totalmem } from 'node:os';
import { Amount, parseQuantity, value } from '@oarlock/api/quantity';
import type { Amounts } from '../resources.ts';

/** What does not change while the machine runs. */
export interface MachineFacts {
  readonly architecture: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly capacity: Amounts;
  readonly cgroupV2: boolean;
}

const architectures: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  arm: 'arm',
  ia32: '386',
  ppc64: 'ppc64le',
  s390x: 's390x',
  riscv64: 'riscv64',
};
const textOf = (file: string) =>
  readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => '',
  );

export async function readMachine(rootDir: string): Promise<MachineFacts> {
  const [osRelease, machineID, systemUUID, bootID, controllers, disk] = await Promise.all([
    textOf('/etc/os-release'),
    textOf('/etc/machine-id'),
    textOf('/sys/class/dmi/id/product_uuid'),
    textOf('/proc/sys/kernel/random/boot_id'),
    textOf('/sys/fs/cgroup/cgroup.controllers'),
    statfs(rootDir),
  ]);
  return {
    architecture: architectures[arch()] ?? arch(),
    kernelVersion: release(),
    osImage: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? 'Linux',
    machineID,
    systemUUID: systemUUID || machineID,
    bootID,
    cgroupV2: controllers !== '',
    capacity: {
      cpu: Amount.of(cpus().length),
      memory: Amount.of(Math.floor(totalmem() / 1024) * 1024, 1, 'BinarySI'),
      'ephemeral-storage': Amount.of(Math.floor((disk.blocks * disk.bsize) / 1024) * 1024, 1, 'BinarySI'),
      'hugepages-1Gi': Amount.of(0),
      'hugepages-2Mi': Amount.of(0),
    },
  };
}

/** The first address of an interface that others can reach, IPv4 before IPv6. */
export function defaultAddress(): string {
  const all = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ internal, address }) => !internal && !/^(fe80|169\.254)/i.test(address));
  return (all.find(({ family }) => family === 'IPv4') ?? all[0])?.address ?? '127.0.0.1';
}

export interface Pressure {
  readonly memory: boolean;
  readonly disk: boolean;
  readonly pids: boolean;
}
export const noPressure: Pressure = { memory: false, disk: false, pids: false };

/** Thresholds as quantities or percentages: below them the node is short. */
export interface Thresholds {
  readonly memoryAvailable: string;
  readonly diskAvailable: string;
  readonly inodesFree: string;
  readonly pidAvailable: string;
}

function below(threshold: string, available: number, total: number): boolean {
  const limit = threshold.endsWith('%') ? (total * Number(threshold.slice(0, -1))) / 100 : value(parseQuantity(threshold));
  return limit > 0 && available < limit;
}

/** Whether memory, disk or process ids run short, at this moment. */
export async function readPressure(rootDir: string, thresholds: Thresholds): Promise<Pressure> {
  const [meminfo, disk, loadavg, pidMax] = await Promise.all([
    textOf('/proc/meminfo'),
    statfs(rootDir),
    textOf('/proc/loadavg'),
    textOf('/proc/sys/kernel/pid_max'),
  ]);
  const available = /^MemAvailable:\s+(\d+)/m.exec(meminfo)?.[1];
  const processes = Number(/\/(\d+)/.exec(loadavg)?.[1] ?? 0);
  const maxPids = Number(pidMax || 4_194_304);
  return {
    memory: below(thresholds.memoryAvailable, available === undefined ? freemem() : Number(available) * 1024, totalmem()),
    disk:
      below(thresholds.diskAvailable, disk.bavail * disk.bsize, disk.blocks * disk.bsize) ||
      (disk.files > 0 && below(thresholds.inodesFree, disk.ffree, disk.files)),
    pids: below(thresholds.pidAvailable, maxPids - processes, maxPids),
  };
}
