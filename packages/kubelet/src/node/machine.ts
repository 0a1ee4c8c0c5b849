import { readdir, readFile, statfs } from 'node:fs/promises';
import { arch, cpus, networkInterfaces, release, totalmem } from 'node:os';
import { Amount } from '@oarlock/api/quantity';
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
  const [osRelease, machineID, systemUUID, bootID, controllers, disk, hugepages] = await Promise.all([
    textOf('/etc/os-release'),
    textOf('/etc/machine-id'),
    textOf('/sys/class/dmi/id/product_uuid'),
    textOf('/proc/sys/kernel/random/boot_id'),
    textOf('/sys/fs/cgroup/cgroup.controllers'),
    statfs(rootDir),
    hugepagesOf('/sys/kernel/mm/hugepages'),
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
      ...hugepages,
    },
  };
}

/** What the machine has set aside of huge pages, by the names of their sizes. */
export async function hugepagesOf(directory: string): Promise<Amounts> {
  const found: Record<string, Amount> = { 'hugepages-1Gi': Amount.of(0), 'hugepages-2Mi': Amount.of(0) };
  for (const name of await readdir(directory).catch(() => [])) {
    const kibi = Number(/^hugepages-(\d+)kB$/.exec(name)?.[1] ?? 0);
    if (kibi === 0) continue;
    const pages = Number(await textOf(`${directory}/${name}/nr_hugepages`));
    found[`hugepages-${Amount.of(kibi * 1024, 1, 'BinarySI').toString()}`] = Amount.of(pages * kibi * 1024, 1, 'BinarySI');
  }
  return found;
}

/** The first address of an interface that others can reach, IPv4 before IPv6; or else one that was given to `lo`. */
export function defaultAddress(): string {
  const all = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ address }) => !/^(fe80|169\.254|127\.|::1$)/i.test(address));
  const outside = all.filter(({ internal }) => !internal);
  const able = outside.length > 0 ? outside : all;
  return (able.find(({ family }) => family === 'IPv4') ?? able[0])?.address ?? '127.0.0.1';
}
