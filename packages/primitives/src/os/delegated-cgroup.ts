import { accessSync, constants, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Where the cgroup file systems are mounted. */
export const cgroupMount = '/sys/fs/cgroup';
/** The cgroup of the processes that a delegated cgroup had: one that enables controllers for cgroups below cannot have processes itself. */
const hostCgroup = 'oarlock-host';
/** The controllers without which a delegated cgroup is useless. */
const neededControllers = ['cpu', 'memory'] as const;
/** Processes that are moved may have started others meanwhile, in the cgroup that they leave. */
const maxPasses = 20;

export interface CgroupPlace {
  readonly mount?: string;
  /** The text of /proc/self/cgroup. */
  readonly membership?: string;
}

/** The cgroup v2 of this process if its user may make cgroups with limits of memory and CPU in it, as a path below the mount point. */
export interface DelegatedCgroup {
  readonly path?: string;
  /** Why there is none. */
  readonly problem?: string;
}

/** Returns the path of the cgroup v2 in the text of /proc/PID/cgroup (cgroups(7)); undefined if the machine has none. */
export const unifiedCgroupOf = (membership: string): string | undefined => /^0::(\/.*)$/m.exec(membership)?.[1];

/** Returns the cgroup v2 that is delegated to the user of this process. Changes nothing. */
export function findDelegatedCgroup({ mount = cgroupMount, membership }: CgroupPlace = {}): DelegatedCgroup {
  const own = unifiedCgroupOf(membership ?? read('/proc/self/cgroup'));
  if (own === undefined || read(join(mount, 'cgroup.controllers')) === '')
    return { problem: 'the machine has no control groups of version 2' };
  const path = (basename(own) === hostCgroup ? dirname(own) : own).slice(1);
  const directory = join(mount, path);
  const files = [directory, ...['cgroup.procs', 'cgroup.subtree_control'].map((file) => join(directory, file))];
  if (path === '' || !files.every(isWritable)) return { problem: 'no control group is delegated to the user' };
  const lacking = neededControllers.filter((name) => !controllersOf(directory).includes(name));
  return lacking.length === 0 ? { path } : { problem: `the control group of the user lacks the controllers ${lacking.join(' and ')}` };
}

/**
 * Prepares the cgroup v2 that is delegated to the user of this process, and returns its path below the mount point; undefined if there is none. Moves the
 * processes of the cgroup, among them this one, to one below.
 * @throws the kernel's error
 */
export function openDelegatedCgroup(place: CgroupPlace = {}): string | undefined {
  const { path } = findDelegatedCgroup(place);
  if (path === undefined) return undefined;
  const directory = join(place.mount ?? cgroupMount, path);
  const host = join(directory, hostCgroup);
  mkdirSync(host, { recursive: true });
  for (let pass = 0; pass < maxPasses; pass++) {
    const pids = read(join(directory, 'cgroup.procs')).split('\n').filter(Boolean);
    if (pids.length === 0) break;
    for (const pid of pids) move(pid, join(host, 'cgroup.procs'));
  }
  return path;
}

function move(pid: string, file: string): void {
  try {
    writeFileSync(file, pid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

const controllersOf = (directory: string): readonly string[] => read(join(directory, 'cgroup.controllers')).trim().split(/\s+/);

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // not Linux, or a file that this kernel lacks
  }
}
