import { ok, type Check } from './check.ts';
import { existingDirectory } from './overlay.ts';

const gibibyte = 1024 ** 3;
const inGiB = (bytes: number) => `${(bytes / gibibyte).toFixed(1)} GiB`;
/** The kubelet evicts pods below 10 % of free space, 15 % for images, and 5 % of free inodes. */
const neededShare = { space: 0.15, inodes: 0.05 } as const;
const neededDisk = gibibyte;

export const disk: Check = {
  name: 'disk space',
  linux: false,
  async run({ machine, dataDir }) {
    const directory = await existingDirectory(machine, dataDir);
    const { bytes, freeBytes, inodes, freeInodes } = await machine.space(directory);
    const found = `${inGiB(freeBytes)} of ${inGiB(bytes)} free in ${directory}`;
    if (freeBytes < neededDisk)
      return {
        level: 'fail',
        found,
        affects: 'All compositions but simulated-1000: the storage may fail to write, and the kubelet evicts pods.',
        remedy: 'Free space, or put the data directory on another disk with --data-dir.',
      };
    const scarce = freeBytes < bytes * neededShare.space || (inodes > 0 && freeInodes < inodes * neededShare.inodes);
    if (!scarce) return ok(found);
    return {
      level: 'warn',
      found: `${found}, ${inodes > 0 ? Math.round((freeInodes / inodes) * 100) : 100} % of inodes`,
      affects: 'Compositions with a kubelet: the node reports DiskPressure and evicts pods.',
      remedy: 'Free space, put the data directory on another disk, or set settings.kubelet.evictionHard in the cluster.yaml.',
    };
  },
};

const neededMemory = 512 * 1024 ** 2;

export const memory: Check = {
  name: 'memory',
  linux: true,
  async run({ machine }) {
    const kibibytes = Number(/^MemAvailable:\s+(\d+) kB$/m.exec((await machine.readText('/proc/meminfo')) ?? '')?.[1] ?? 0);
    const found = `${inGiB(kibibytes * 1024)} available`;
    if (kibibytes * 1024 >= neededMemory) return ok(found);
    return {
      level: 'warn',
      found,
      affects: 'All compositions: the node reports MemoryPressure and evicts pods below 100 MiB.',
      remedy: 'End other programs; a node needs about 1 GiB in addition to its pods.',
    };
  },
};
