import { readdir, readFile, statfs } from 'node:fs/promises';
import { arch, cpus, networkInterfaces, release, totalmem } from 'node:os';
import { ParsedQuantity } from '@oarlock/api/values/quantity';
import type { Resources } from '../pod-util/resources.ts';

/** Facts about the machine that do not change while it runs. */
export interface MachineFacts {
  readonly architecture: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly capacity: Resources;
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
      cpu: ParsedQuantity.of(cpus().length),
      memory: ParsedQuantity.of(Math.floor(totalmem() / 1024) * 1024, 1, 'BinarySI'),
      'ephemeral-storage': ParsedQuantity.of(Math.floor((disk.blocks * disk.bsize) / 1024) * 1024, 1, 'BinarySI'),
      ...hugepages,
    },
  };
}

/** Returns the capacity of huge pages, keyed by resource name such as `hugepages-2Mi`. */
export async function hugepagesOf(directory: string): Promise<Resources> {
  const found: Record<string, ParsedQuantity> = { 'hugepages-1Gi': ParsedQuantity.of(0), 'hugepages-2Mi': ParsedQuantity.of(0) };
  for (const name of await readdir(directory).catch(() => [])) {
    const kibi = Number(/^hugepages-(\d+)kB$/.exec(name)?.[1] ?? 0);
    if (kibi === 0) continue;
    const pages = Number(await textOf(`${directory}/${name}/nr_hugepages`));
    found[`hugepages-${ParsedQuantity.of(kibi * 1024, 1, 'BinarySI').toString()}`] = ParsedQuantity.of(pages * kibi * 1024, 1, 'BinarySI');
  }
  return found;
}

/** Returns the machine's first external address, IPv4 before IPv6. Without one, returns a non-loopback address of the interface `lo`. */
export function defaultAddress(): string {
  const all = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ address }) => !/^(fe80|169\.254|127\.|::1$)/i.test(address));
  const outside = all.filter(({ internal }) => !internal);
  const able = outside.length > 0 ? outside : all;
  return (able.find(({ family }) => family === 'IPv4') ?? able[0])?.address ?? '127.0.0.1';
}
