import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, runProgram } from '../../harness/programs.ts';

/** Everything that a node may leak, counted by kind. */
export interface Leftovers {
  readonly shims: number;
  /** In containers, also what probes and execs have begun there. */
  readonly processes: number;
  readonly mounts: number;
  readonly networkNamespaces: number;
  /** Ends of pods' links, at the bridge. */
  readonly links: number;
  readonly rules: number;
  /** Held by pods in the files of host-local. */
  readonly addresses: number;
  readonly podDirectories: number;
  readonly logDirectories: number;
  /** Files and directories of both, whatever they are. */
  readonly files: number;
  /** Results of CNI that the runtime keeps. */
  readonly networkRecords: number;
  /** Of pods, in all hierarchies. */
  readonly cgroups: number;
}

export interface NodePlaces {
  /** Of containerd. */
  readonly socket: string;
  readonly bridge: string;
  readonly dataDir: string;
  /** The kubelet's root directory. */
  readonly rootDir: string;
  /** Below which the kubelet makes cgroups. */
  readonly cgroupRoot: string;
}

const names = (directory: string) => readdir(directory).catch(() => []);
const below = (directory: string) => readdir(directory, { recursive: true }).catch(() => []);

/** Looks at one node from outside. */
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

/** What CNI's library caches for runtimes, in one directory of the machine. */
async function cachedResults(bridge: string): Promise<number> {
  const directory = '/var/lib/cni/results';
  const texts = await Promise.all((await names(directory)).map((name) => readFile(join(directory, name), 'latin1').catch(() => '')));
  return texts.filter((text) => text.includes(bridge)).length;
}

/** Names below a directory, without the content of volumes: that is the pods' affair, and swapped by renames. */
async function filesOf(pods: string): Promise<number> {
  return (await below(pods)).filter((path) => !/\/volumes\/[^/]+\/[^/]+\//.test(path) && !/\/containers\//.test(path)).length;
}

/** The socket's shims, and what runs below them. */
async function shimsOf(socket: string): Promise<{ readonly shims: number; readonly processes: number }> {
  const children = new Map<string, string[]>();
  const shims: string[] = [];
  for (const line of (await mustRun('ps', ['-eo', 'pid,ppid,args'])).split('\n')) {
    const [pid = '', parent = '', ...args] = line.trim().split(/\s+/);
    children.set(parent, [...(children.get(parent) ?? []), pid]);
    const text = args.join(' ');
    if (text.includes('containerd-shim') && text.includes(socket)) shims.push(pid);
  }
  const known = new Set(shims);
  let processes = 0;
  for (const queue = [...shims]; queue.length > 0; ) {
    for (const child of children.get(queue.pop() ?? '') ?? []) {
      if (known.has(child)) continue;
      known.add(child);
      processes += 1;
      queue.push(child);
    }
  }
  return { shims: shims.length, processes };
}
