import { randomInt } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startContainerd } from '../fixtures/containerd.ts';
import type { Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { everythingIsNeeded, type Machine } from '../harness/machine.ts';
import { missing } from '../harness/machine-parts.ts';
import { netnsMissing, otherMachine } from '../harness/netns.ts';
import { oarlock } from '../harness/oarlock.ts';
import { Daemon, mustRun, runProgram } from '../harness/programs.ts';

/** Why two nodes cannot be had here; undefined: they can, or must. */
export const noNodes = everythingIsNeeded ? undefined : ((await missing.containerd()) ?? (await netnsMissing()));

export const nodeNames = ['node-a', 'node-b'] as const;
export type NodeName = (typeof nodeNames)[number];

/** Two nodes, each on a containerd of its own; the second is behind a link, and their pods reach each other over VXLAN. */
export interface TwoContainerdNodes {
  readonly cluster: Cluster;
  /** InternalIP by node. */
  readonly addresses: ReadonlyMap<string, string>;
  /** Puts an archive of images on both nodes. */
  importImages(archive: string): Promise<void>;
}

interface NodeItem extends Item {
  readonly status: {
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Starts both; the machine ends them. `kubelet`: settings of both kubelets. */
export async function startTwoNodes(machine: Machine, kubelet: Readonly<Record<string, unknown>> = {}): Promise<TwoContainerdNodes> {
  const far = await otherMachine();
  machine.undo('network namespace', () => far.remove());
  const dir = machine.path('far-containerd');
  const [farContainerd, containerd] = await Promise.all([
    startContainerd({ dir, cniConfDir: join(dir, 'cni'), enter: far.enterNetwork }),
    machine.containerd(),
  ]);
  machine.undo('far containerd', () => farContainerd.stop());
  const spec = composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd, kubelet });
  const vxlan = { device: `oar-vx${randomInt(100, 1000)}`, id: randomInt(100, 10_000) };
  // of pods with host ports, portmap leaves the chains that lead to them
  machine.undo('host ports', () => mustRun('sh', ['-c', 'iptables-save -t nat | grep -v CNI- | iptables-restore -T nat']));
  machine.undo('VXLAN', () => runProgram('ip', ['link', 'del', vxlan.device]));
  const network = (confDir: string) => ({
    use: 'network-bridge',
    config: { bridge: spec.bridge ?? '', confDir, routes: 'vxlan', vxlan },
  });
  const cluster = await machine.cluster({ spec: { ...spec, network: network(containerd.cniConfDir) } });
  const addresses = await addressesOf(cluster, 1);
  await joinNode(machine, cluster, {
    enter: far.enterNetwork,
    server: addresses.get('node-a') ?? '',
    // each proxy serves what pods of the other's node ask for
    spec: {
      runtimes: [{ use: 'runtime-containerd', config: { socket: farContainerd.socket } }],
      network: network(join(dir, 'cni')),
      proxy: 'proxy-iptables',
      settings: spec.settings,
    },
  });
  return {
    cluster,
    addresses: await addressesOf(cluster, 2),
    async importImages(archive) {
      await Promise.all([containerd, farContainerd].map((one) => one.importImages(archive)));
    },
  };
}

interface Joining {
  readonly enter: readonly [file: string, ...args: string[]];
  /** Where the API server is reached from there. */
  readonly server: string;
  readonly spec: object;
}

async function joinNode(machine: Machine, cluster: Cluster, { enter, server, spec }: Joining): Promise<void> {
  const dir = machine.path('far-node');
  await mkdir(dir);
  const file = join(dir, 'node.yaml');
  await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'e2e' }, spec }));
  const { stdout } = await cluster.oarlock('token', 'create');
  const said = stdout.trim().split(' ').slice(3);
  const args = said.map((word) => (word.startsWith('https://') ? `https://${server}:${cluster.port}` : word));
  const [program, ...before] = enter;
  const own = ['--node-name', 'node-b', '-f', file, '--data-dir', join(dir, 'data')];
  const node = new Daemon(program, [...before, oarlock.file, ...oarlock.args, 'node', 'join', ...args, ...own]);
  machine.undo('far node', async () => {
    await node.stop();
    await mustRun('sh', ['-c', 'grep -o " $1/[^ ]*" /proc/self/mountinfo | sort -ru | xargs -r -n1 umount -l', 'sh', dir]);
  });
  await node.line(/^The node node-b is ready at /);
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
