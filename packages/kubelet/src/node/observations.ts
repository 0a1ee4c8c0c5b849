import type { StatsFs } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { freemem, totalmem } from 'node:os';

/** What evictions look at, by upstream's names. */
export type SignalName =
  | 'memory.available'
  | 'nodefs.available'
  | 'nodefs.inodesFree'
  | 'imagefs.available'
  | 'imagefs.inodesFree'
  | 'pid.available';
export interface Observation {
  readonly available: number;
  readonly capacity: number;
}
/** Bytes, inodes or process ids. What the node cannot tell is absent. */
export type Observations = Partial<Readonly<Record<SignalName, Observation>>>;

const textOf = (file: string) =>
  readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => '',
  );

/** How much of everything is left at this moment. `imageDir`: where images are kept, when the runtime has any. */
export async function observe(rootDir: string, imageDir: string | undefined): Promise<Observations> {
  const [meminfo, nodefs, imagefs, loadavg, pidMax] = await Promise.all([
    textOf('/proc/meminfo'),
    statfs(rootDir),
    imageDir === undefined ? undefined : statfs(imageDir).catch(() => undefined),
    textOf('/proc/loadavg'),
    textOf('/proc/sys/kernel/pid_max'),
  ]);
  const available = /^MemAvailable:\s+(\d+)/m.exec(meminfo)?.[1];
  const processes = Number(/\/(\d+)/.exec(loadavg)?.[1] ?? 0);
  const maxPids = Number(pidMax || 4_194_304);
  return {
    'memory.available': { available: available === undefined ? freemem() : Number(available) * 1024, capacity: totalmem() },
    ...fileSystem('nodefs', nodefs),
    ...(imagefs && fileSystem('imagefs', imagefs)),
    'pid.available': { available: maxPids - processes, capacity: maxPids },
  };
}

type FileSystem = Pick<StatsFs, 'bavail' | 'bsize' | 'blocks' | 'ffree' | 'files'>;

function fileSystem(name: 'nodefs' | 'imagefs', { bavail, bsize, blocks, ffree, files }: FileSystem): Observations {
  return {
    [`${name}.available`]: { available: bavail * bsize, capacity: blocks * bsize },
    // some file systems have no fixed number of inodes
    ...(files > 0 && { [`${name}.inodesFree`]: { available: ffree, capacity: files } }),
  };
}
