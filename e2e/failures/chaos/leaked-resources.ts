import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, runProgram } from '../../harness/programs.ts';

/** Every resource that a node may leak, counted by kind. */
export interface Leftovers {
  readonly shims: number;
  /** Processes in containers, those of probes and execs included. */
  readonly processes: number;
  readonly mounts: number;
  readonly networkNamespaces: number;
  /** Host ends of the pods' links, on the bridge. */
  readonly links: number;
  readonly rules: number;
  /** Addresses held by pods, in the files of host-local. */
  readonly addresses: number;
  readonly podDirectories: number;
  readonly logDirectories: number;
  /** Files and directories of both. */
  readonly files: number;
  /** CNI results that the runtime caches. */
  readonly networkRecords: number;
  /** Cgroups of pods, in all hierarchies. */
  readonly cgroups: number;
}

export interface NodePlaces {
  /** Containers of containerd. */
  readonly socket: string;
  readonly bridge: string;
  readonly dataDir: string;
  /** The kubelet's root directory. */
  readonly rootDir: string;
  /** The cgroup below which the kubelet creates cgroups. */
  readonly cgroupRoot: string;
}

const names = (directory: string) => readdir(directory).catch(() => []);
const below = (directory: string) => readdir(directory, { recursive: true }).catch(() => []);

/** Counts the resources of a node from outside. */
export async function countLeftovers({ socket, bridge, dataDir, rootDir, cgroupRoot }: NodePlaces): Promise<Leftovers> {
  const dir = join(socket, '..');
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
  const { shims, processes } = await shimsOf(socket);
  const { stdout: rules } = await runProgram('iptables-save', []);
  const [pods, logs] = [join(rootDir, 'pods'), join(rootDir, 'logs')];
  const held = (await below(join(dataDir, 'plugins'))).filter((path) => /(^|\/)10\.\d+\.\d+\.\d+$/.test(path));
  return {
    shims,
    processes,
    mounts: mounts.filter((path) => path.startsWith(`${dir}/`) || path.startsWith(`${rootDir}/`)).length,
    networkNamespaces: (await below(join(dir, 'state'))).filter((path) => /\/netns\/cni-/.test(path)).length,
    links: (await names(`/sys/class/net/${bridge}/brif`)).length,
    rules: rules.split('\n').filter((line) => line.includes('CNI-')).length,
    addresses: held.length,
    podDirectories: (await names(pods)).length,
    logDirectories: (await names(logs)).length,
    files: (await filesOf(pods)) + (await names(logs)).length,
    networkRecords: await cachedResults(bridge),
    cgroups: await podCgroups(cgroupRoot),
  };
}

async function podCgroups(root: string): Promise<number> {
  const hierarchies = ['', ...(await names('/sys/fs/cgroup'))].map((name) => join('/sys/fs/cgroup', name, root));
  const found = await Promise.all(hierarchies.map(below));
  return found.flat().filter((path) => /(^|\/)pod[0-9a-f-]{36}$/.test(path)).length;
}

/** Results that the CNI library caches for runtimes, in one directory of the machine. */
async function cachedResults(bridge: string): Promise<number> {
  const directory = '/var/lib/cni/results';
  const texts = await Promise.all((await names(directory)).map((name) => readFile(join(directory, name), 'latin1').catch(() => '')));
  return texts.filter((text) => text.includes(bridge)).length;
}

/** Names below a directory, without the content of volumes, which pods own and renames replace. */
async function filesOf(pods: string): Promise<number> {
  return (await below(pods)).filter((path) => !/\/volumes\/[^/]+\/[^/]+\//.test(path) && !/\/containers\//.test(path)).length;
}

/**
 * The socket's shims, and the processes below them. A shim that runs nothing and whose container containerd has forgotten is not counted: containerd
 * 1.6 loses it when a call ends while the shim starts or is deleted (containerd issues 6860 and 8931), and no CRI call reaches it.
 */
async function shimsOf(socket: string): Promise<{ readonly shims: number; readonly processes: number }> {
  const children = new Map<string, string[]>();
  const shims = new Map<string, string>();
  for (const line of (await mustRun('ps', ['-eo', 'pid,ppid,args'])).split('\n')) {
    const [pid = '', parent = '', ...args] = line.trim().split(/\s+/);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
    if (args[0]?.includes('containerd-shim') === true && args.includes(socket)) shims.set(pid, args[args.indexOf('-id') + 1] ?? '');
  }
  const processes = new Set<string>();
  for (const queue = [...shims.keys()]; queue.length > 0; ) {
    for (const child of children.get(queue.pop() ?? '') ?? []) {
      if (shims.has(child) || processes.has(child)) continue;
      processes.add(child);
      queue.push(child);
    }
  }
  const idle = [...shims].filter(([pid]) => !children.has(pid));
  const known = idle.length === 0 ? [] : await containersOf(socket);
  const lost = idle.filter(([, id]) => !known.includes(id)).length;
  return { shims: shims.size - lost, processes: processes.size };
}

async function containersOf(socket: string): Promise<readonly string[]> {
  const ids = await mustRun('/usr/bin/ctr', ['--address', socket, '--namespace', 'k8s.io', 'containers', 'ls', '-q']);
  return ids.trim().split('\n');
}
