import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cluster, ClusterOptions } from '../../harness/cluster.ts';
import type { ClusterSpec, CompositionOptions } from '../../harness/composition.ts';
import { containersOf, type Containers } from '../../harness/containers.ts';
import type { Machine, SharedContainerd } from '../../harness/machine.ts';
import { mustRun } from '../../harness/programs.ts';
import { containerdUses, type RuntimeUses } from './leaked-resources.ts';
import { nodeOfMachine, type NodeView } from './node-view.ts';

/** The container runtime of a node that faults are done to. */
export interface ChaosRuntime {
  readonly name: 'containerd' | 'oci';
  readonly options: Pick<CompositionOptions, 'containerd' | 'registryConfigDirectory'>;
  /** Fields of the cluster's `spec` that replace those of the composition. */
  readonly spec?: ClusterSpec;
  readonly runAs?: NonNullable<ClusterOptions['runAs']>;
  /** Whether the runtime loses a container whose watching process is killed; otherwise the container runs on. */
  readonly losesUnwatched: boolean;
  /** The process whose calls the kubelet makes. */
  pid(cluster: Cluster): Promise<number>;
  running(cluster: Cluster): Promise<Containers>;
  /** The processes that watch a container. */
  watchersOf(cluster: Cluster, id: string): Promise<readonly number[]>;
  kill9(cluster: Cluster): Promise<void>;
  restart(): Promise<void>;
  /** Ends every process of the runtime and of its containers, with all state that a boot of the machine loses. The cluster does not run. */
  shutDown(cluster: Cluster): Promise<void>;
  /** Counts what the runtime uses. Its containers are in control groups below `cgroupRoot`. */
  uses(cluster: Cluster, cgroupRoot: string): Promise<RuntimeUses>;
  /** The mounts and the network of the node. */
  view(cluster: Cluster): Promise<NodeView>;
}

async function parentOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

export async function chaosContainerd(machine: Machine): Promise<ChaosRuntime> {
  const containerd: SharedContainerd = await machine.containerd();
  const running = (cluster: Cluster) => containersOf('containerd', { dir: cluster.dir, containerd });
  return {
    name: 'containerd',
    options: { containerd },
    losesUnwatched: true,
    pid: async () => containerd.pid,
    running,
    async watchersOf(cluster, id) {
      const shim = await parentOf((await running(cluster)).get(id)?.pid ?? 0);
      const command = await mustRun('ps', ['-o', 'args=', '-p', `${shim}`]);
      if (!command.includes('containerd-shim')) throw new Error(`the parent of the container ${id} is no shim: ${command}`);
      return [shim];
    },
    kill9: () => containerd.kill9(),
    restart: () => containerd.restart(),
    async shutDown() {
      await containerd.stop();
      await rm(join(containerd.socket, '..', 'state'), { recursive: true, force: true }); // /run is empty after a boot
    },
    uses: () => containerdUses(containerd.socket),
    view: async () => nodeOfMachine,
  };
}
