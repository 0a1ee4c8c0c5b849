import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../../harness/programs.ts';
import { mountsBelow, names, nodeOfMachine, processesInPods, runOnNode, type NodeView } from './node-view.ts';

/** Every resource that a node may leak, counted by kind. */
export interface Leftovers {
  readonly shims: number;
  /** Processes in containers, those of probes and execs included. */
  readonly processes: number;
  readonly mounts: number;
  readonly networkNamespaces: number;
  /** Sandboxes that are ready, of a runtime that keeps them in files. One that is not stays with its ended containers, for inspection. */
  readonly pods: number;
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

/** What a container runtime uses. */
export type RuntimeUses = Pick<Leftovers, 'shims' | 'processes' | 'mounts' | 'networkNamespaces' | 'pods'>;

export interface NodePlaces {
  readonly runtime: RuntimeUses;
  readonly view: NodeView;
  readonly bridge: string;
  readonly dataDir: string;
  /** The kubelet's root directory. */
  readonly rootDir: string;
  /** The cgroup below which the kubelet creates cgroups. */
  readonly cgroupRoot: string;
}

const below = (directory: string) => readdir(directory, { recursive: true }).catch(() => []);

/** Counts the resources of a node from outside. */
export async function countLeftovers({ runtime, view, bridge, dataDir, rootDir, cgroupRoot }: NodePlaces): Promise<Leftovers> {
  const rules = await runOnNode(view, ['iptables-save']);
  const links = await runOnNode(view, ['ip', '-o', 'link', 'show', 'type', 'veth']);
  const [pods, logs] = [join(rootDir, 'pods'), join(rootDir, 'logs')];
  const held = (await below(join(dataDir, 'plugins'))).filter((path) => /(^|\/)10\.\d+\.\d+\.\d+$/.test(path));
  return {
    ...runtime,
    mounts: runtime.mounts + (await mountsBelow(view, rootDir)),
    links: links.split('\n').filter((line) => line.includes(` master ${bridge} `)).length,
    rules: rules.split('\n').filter((line) => line.includes('CNI-')).length,
    addresses: held.length,
    podDirectories: (await names(pods)).length,
    logDirectories: (await names(logs)).length,
    files: (await filesOf(pods)) + (await names(logs)).length,
    networkRecords: await cachedResults(view, bridge),
    cgroups: await podCgroups(cgroupRoot),
  };
}

export async function containerdUses(socket: string): Promise<RuntimeUses> {
  const dir = join(socket, '..');
  return {
    ...(await shimsOf(socket)),
    mounts: await mountsBelow(nodeOfMachine, dir),
    networkNamespaces: (await below(join(dir, 'state'))).filter((path) => /\/netns\/cni-/.test(path)).length,
    pods: 0, // containerd keeps them in a database
  };
}

/** What runtime-oci uses: the processes that wait for its containers name its directory. */
export async function ociUses(directory: string, view: NodeView): Promise<RuntimeUses> {
  const commands = (await mustRun('ps', ['-eo', 'args'])).split('\n');
  return {
    shims: commands.filter((command) => command.includes(`${directory}/`)).length,
    processes: (await processesInPods(view)).length,
    mounts: await mountsBelow(view, directory),
    networkNamespaces: (await names(join(view.root, 'run/netns'))).length,
    pods: await readyPods(join(directory, 'pods')),
  };
}

async function readyPods(directory: string): Promise<number> {
  const records = (await names(directory)).map((id) => readFile(join(directory, id, 'sandbox.json'), 'utf8').catch(() => '{}'));
  return (await Promise.all(records)).filter((text) => (JSON.parse(text) as { readonly state?: string }).state === 'READY').length;
}

async function podCgroups(root: string): Promise<number> {
  const hierarchies = ['', ...(await names('/sys/fs/cgroup'))].map((name) => join('/sys/fs/cgroup', name, root));
  const found = await Promise.all(hierarchies.map(below));
  return found.flat().filter((path) => /(^|\/)pod[0-9a-f-]{36}$/.test(path)).length;
}

/** Results that the CNI library caches for runtimes, in one directory of the machine. */
async function cachedResults({ root }: NodeView, bridge: string): Promise<number> {
  const directory = join(root, 'var/lib/cni/results');
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
