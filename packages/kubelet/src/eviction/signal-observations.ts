import type { StatsFs } from 'node:fs';
import { readFile, statfs } from 'node:fs/promises';
import { freemem, totalmem } from 'node:os';

/** The names of upstream's eviction signals. */
export type EvictionSignal =
  | 'memory.available'
  | 'nodefs.available'
  | 'nodefs.inodesFree'
  | 'imagefs.available'
  | 'imagefs.inodesFree'
  | 'pid.available';
export interface SignalObservation {
  readonly available: number;
  readonly capacity: number;
}
/** The observation of each eviction signal in bytes, inodes or process ids. A signal that cannot be observed is absent. */
export type SignalObservations = Partial<Readonly<Record<EvictionSignal, SignalObservation>>>;

const textOf = (file: string) =>
  readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => '',
  );

/** Reads the current value of each eviction signal. `imageDir` is the image directory of the runtime; undefined if the runtime has none. */
export async function observeSignals(rootDir: string, imageDir: string | undefined): Promise<SignalObservations> {
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

function fileSystem(name: 'nodefs' | 'imagefs', { bavail, bsize, blocks, ffree, files }: FileSystem): SignalObservations {
  return {
    [`${name}.available`]: { available: bavail * bsize, capacity: blocks * bsize },
    // some file systems have no fixed number of inodes
    ...(files > 0 && { [`${name}.inodesFree`]: { available: ffree, capacity: files } }),
  };
}
