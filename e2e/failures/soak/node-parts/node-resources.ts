import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, runProgram } from '../../../harness/programs.ts';

/** Every resource of a node that could leak: lines by kind. */
export type NodeResources = Readonly<Record<string, readonly string[]>>;

export interface Places {
  /** The directory of all daemons, clusters and their data. */
  readonly base: string;
  /** The directory of the node's process. */
  readonly dataDir: string;
  readonly rootDir: string;
  readonly cgroupRoot: string;
  readonly containerd: string;
}

const lines = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
const names = (directory: string) => readdir(directory).catch(() => []);
const below = (directory: string) => readdir(directory, { recursive: true }).catch(() => []);
const linesOf = async (file: string, ...args: string[]) => lines((await runProgram(file, args)).stdout);

/** Lists the resources of the node from outside. */
export async function census({ base, dataDir, rootDir, cgroupRoot, containerd }: Places): Promise<NodeResources> {
  const mountinfo = lines(await readFile('/proc/self/mountinfo', 'utf8'));
  const rules = await linesOf('nft', '-s', 'list', 'ruleset');
  return {
    processes: await processes(base),
    mounts: mountinfo.map((line) => line.split(' ')[4] ?? '').filter((path) => path.startsWith(base) || path.startsWith('/run/netns/')),
    namespaces: await names('/run/netns'),
    links: (await linesOf('ip', '-o', 'link')).map((line) => line.split(':')[1]?.trim().split('@')[0] ?? ''),
    addresses: (await linesOf('ip', '-o', 'addr')).map((line) => line.split(/\s+/).slice(1, 4).join(' ')),
    routes: [...(await linesOf('ip', 'route', 'show', 'table', 'all')), ...(await linesOf('ip', 'rule'))],
    neighbours: await linesOf('ip', 'neigh', 'show', 'nud', 'permanent'),
    rules: rules.flatMap(elements),
    iptables: lines((await runProgram('iptables-save', [])).stdout)
      .filter((line) => /^-A|^:/.test(line))
      .map((line) => line.replace(/\[\d+:\d+\]/, '')),
    cgroups: await cgroups(cgroupRoot),
    loops: (await linesOf('losetup', '--list', '--noheadings', '--output', 'BACK-FILE')).filter((file) => file.startsWith(base)),
    files: [...(await files(rootDir)), ...(await files(join(dataDir, 'plugins'))), ...(await files(join(dataDir, 'kubelet')))],
    containers: await linesOf('/usr/bin/ctr', '--address', containerd, '--namespace', 'k8s.io', 'containers', 'ls', '-q'),
    tasks: (await linesOf('/usr/bin/ctr', '--address', containerd, '--namespace', 'k8s.io', 'tasks', 'ls', '-q')).sort(),
    snapshots: (await mustRun('/usr/bin/ctr', ['--address', containerd, '--namespace', 'k8s.io', 'snapshots', 'ls']))
      .split('\n')
      .filter((line) => / Active/.test(line))
      .map((line) => line.split(/\s+/)[0] ?? ''),
    results: await cachedResults(base),
  };
}

/** nftables prints a set on one line; this splits it into its elements. */
const elements = (line: string): readonly string[] =>
  line.startsWith('elements = {')
    ? line
        .replace(/^elements = \{|\}$/g, '')
        .split(',')
        .map((each) => each.trim())
    : [line.replace(/,$/, '')];

async function processes(base: string): Promise<readonly string[]> {
  const parents = new Map<string, { readonly parent: string; readonly args: string }>();
  for (const line of (await mustRun('ps', ['-eo', 'pid,ppid,args'])).split('\n').slice(1)) {
    const [pid = '', parent = '', ...args] = line.trim().split(/\s+/);
    parents.set(pid, { parent, args: args.join(' ') });
  }
  const belongs = (pid: string): boolean => {
    const seen = new Set<string>();
    for (let at = pid; !seen.has(at); at = parents.get(at)?.parent ?? at) {
      seen.add(at);
      if (parents.get(at)?.args.includes(`${base}/`)) return true;
    }
    return false;
  };
  const found: string[] = [];
  for (const [pid, { args }] of parents) {
    // processes of the soak itself
    if (/^(ps|ctr|nft|ip|iptables\S*) /.test(args) || pid === String(process.pid)) continue;
    if (belongs(pid)) found.push(args.replace(/-id [0-9a-f]{64}/, '-id ID').slice(0, 160));
  }
  return found;
}

async function cgroups(root: string): Promise<readonly string[]> {
  const hierarchies = ['', ...(await names('/sys/fs/cgroup'))];
  const found = await Promise.all(
    hierarchies.map(async (name) =>
      (await below(join('/sys/fs/cgroup', name, root)))
        .filter((path) => /(pod[0-9a-f-]{36}|[0-9a-f]{64})$/.test(path))
        .map((path) => join(name, path)),
    ),
  );
  return found.flat();
}

/** Names below a directory, without the content of volumes, which pods own, and without files that are rewritten continuously. */
async function files(root: string): Promise<readonly string[]> {
  return (await below(root))
    .filter(
      (path) =>
        !/\/volumes\/[^/]+\/[^/]+\//.test(path) && !/\.(log|log\.\d+|tmp|sock)$/.test(path) && !/\/(\.\.|globalmount\/|mount\/)/.test(path),
    )
    .map((path) => path.replace(/\/[0-9]+\.log\S*$/, ''));
}

/** Results that the CNI library keeps for pods of this node. */
async function cachedResults(base: string): Promise<readonly string[]> {
  const directory = '/var/lib/cni/results';
  const found = await Promise.all(
    (await names(directory)).map(async (name) =>
      (await readFile(join(directory, name), 'latin1').catch(() => '')).includes(base) ? name : undefined,
    ),
  );
  return found.filter((name) => name !== undefined);
}

/** Describes what was added and what was removed. */
export function differences(before: NodeResources, now: NodeResources): readonly string[] {
  return Object.keys(before).flatMap((kind) => {
    const rest = [...(before[kind] ?? [])];
    const more = (now[kind] ?? []).filter((each) => {
      const at = rest.indexOf(each);
      if (at >= 0) rest.splice(at, 1);
      return at < 0;
    });
    return [...more.map((each) => `${kind}: left ${each}`), ...rest.map((each) => `${kind}: lost ${each}`)];
  });
}
