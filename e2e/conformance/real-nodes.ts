import { randomInt } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import type { Machine } from '../harness/machine.ts';
import { otherMachine } from '../harness/netns.ts';
import { oarlock } from '../harness/oarlock.ts';
import { ordinaryUser } from '../harness/ordinary-user.ts';
import { Daemon, mustRun, runProgram } from '../harness/programs.ts';
import { nodeStages, type NodeRuntime, type NodeStageName } from './node-environments.ts';

export const nodeNames = ['node-a', 'node-b'] as const;
export type NodeName = (typeof nodeNames)[number];

export interface RealNodes {
  readonly cluster: Cluster;
  /** InternalIP by node. */
  readonly addresses: ReadonlyMap<string, string>;
  /** Imports an archive of images on each node. */
  importImages(archive: string): Promise<void>;
}

interface NodeItem extends Item {
  readonly status: {
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/**
 * Starts two nodes, each with its own runtime; the second is behind a link, and their pods reach each other over VXLAN. The machine stops them.
 */
export async function startTwoNodes(machine: Machine, stage: NodeStageName): Promise<RealNodes> {
  const { runtime } = nodeStages[stage];
  const far = await otherMachine();
  machine.undo('network namespace', () => far.remove());
  const startRuntime = async (name: string, enter: readonly string[] = []): Promise<NodeRuntime> => {
    const runtime = await nodeStages[stage].start({ dir: machine.path(name), enter });
    machine.undo(name, () => runtime.stop());
    return runtime;
  };
  const runtimes = await Promise.all([startRuntime(`near-${stage}`), startRuntime(`far-${stage}`, far.enterNetwork)]);
  const spec = composition({ storage: 'memory', runtime, network: 'bridge' });
  const vxlan = { device: `oar-vx${randomInt(100, 1000)}`, id: randomInt(100, 10_000) };
  // portmap leaves the chains of pods with host ports
  machine.undo('host ports', () => mustRun('sh', ['-c', 'iptables-save -t nat | grep -v CNI- | iptables-restore -T nat']));
  machine.undo('VXLAN', () => runProgram('ip', ['link', 'del', vxlan.device]));
  const on = ({ config, cniConfDir: confDir }: NodeRuntime) => ({
    runtimes: [{ use: `runtime-${runtime}`, config }],
    network: { use: 'network-bridge', config: { bridge: spec.bridge ?? '', confDir, routes: 'vxlan', vxlan } },
  });
  const cluster = await machine.cluster({ spec: { ...spec, ...on(runtimes[0]) } });
  const addresses = await addressesOf(cluster, 1);
  const farDataDir = await joinNode(machine, cluster, {
    enter: far.enterNetwork,
    server: addresses.get('node-a') ?? '',
    // the proxy of each node also serves requests of the other node's pods
    spec: { ...on(runtimes[1]), policy: spec.policy, proxy: 'proxy-iptables', settings: spec.settings },
  });
  return {
    cluster,
    addresses: await addressesOf(cluster, 2),
    async importImages(archive) {
      await Promise.all(runtimes.map((one, index) => one.importImages(archive, index === 0 ? cluster.dataDir : farDataDir)));
    },
  };
}

interface Joining {
  readonly enter: readonly [file: string, ...args: string[]];
  /** The address of the API server from there. */
  readonly server: string;
  readonly spec: object;
}

/** Returns the data directory of the node. */
async function joinNode(machine: Machine, cluster: Cluster, { enter, server, spec }: Joining): Promise<string> {
  const dir = machine.path('far-node');
  const dataDir = join(dir, 'data');
  await mkdir(dir);
  const file = join(dir, 'node.yaml');
  await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }));
  const { stdout } = await cluster.oarlock('token', 'create');
  const words = stdout.trim().split(' ').slice(3);
  const args = words.map((word) => (word.startsWith('https://') ? `https://${server}:${cluster.port}` : word));
  const [program, ...before] = enter;
  const own = ['--node-name', 'node-b', '-f', file, '--data-dir', dataDir];
  const node = new Daemon(program, [...before, oarlock.file, ...oarlock.args, 'node', 'join', ...args, ...own]);
  machine.undo('far node', async () => {
    await node.stop();
    await mustRun('sh', ['-c', 'grep -o " $1/[^ ]*" /proc/self/mountinfo | sort -ru | xargs -r -n1 umount -l', 'sh', dir]);
  });
  await node.line(/^The node node-b is ready at /);
  return dataDir;
}

/** Starts a node of an ordinary user; the machine stops it. */
export async function startRootlessNode(machine: Machine, stage: NodeStageName): Promise<RealNodes> {
  const runtime = await nodeStages[stage].start({ dir: machine.path(stage) });
  machine.undo(stage, () => runtime.stop());
  const { settings = {} } = composition({ storage: 'memory', runtime: 'oci', network: 'bridge' });
  const cluster = await machine.cluster({
    spec: {
      rootless: true,
      storage: 'storage-memory',
      runtimes: [{ use: 'runtime-oci', config: runtime.config }],
      network: { use: 'network-bridge', config: { confDir: null } },
      policy: 'policy-nftables',
      proxy: 'proxy-nftables',
      dns: 'dns-server',
      settings,
    },
    runAs: ordinaryUser,
  });
  return {
    cluster,
    addresses: await addressesOf(cluster, 1),
    importImages: (archive) => runtime.importImages(archive, cluster.dataDir),
  };
}

/** Waits for so many ready nodes. */
async function addressesOf({ api }: Cluster, count: number): Promise<ReadonlyMap<string, string>> {
  const ready = ({ status }: NodeItem) =>
    status.conditions?.some(({ type, status: holds }) => type === 'Ready' && holds === 'True') === true;
  const nodes = await api.until<NodeItem>(`${count} ready nodes`, '/api/v1/nodes', (all) => all.filter(ready).length === count);
  return new Map(
    nodes.map(({ metadata, status }) => [metadata.name, status.addresses?.find(({ type }) => type === 'InternalIP')?.address ?? '']),
  );
}
