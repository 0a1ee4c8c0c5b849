import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cluster } from '../../harness/cluster.ts';
import type { CompositionOptions } from '../../harness/composition.ts';
import { containersOf, type Containers } from '../../harness/containers.ts';
import type { Machine, SharedContainerd } from '../../harness/machine.ts';
import { endProcessesBelow, killPid, mustRun, processesBelow, runProgram } from '../../harness/programs.ts';
import { supervisorOf } from '../../harness/supervisor.ts';
import { until } from '../../harness/until.ts';
import { unmountBelow } from '../../fixtures/containerd.ts';
import { containerdUses, ociUses, type RuntimeUses } from './leaked-resources.ts';

/** The container runtime of a node that faults are done to. */
export interface ChaosRuntime {
  readonly name: 'containerd' | 'oci';
  readonly options: Pick<CompositionOptions, 'containerd' | 'registryConfigDirectory'>;
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
  };
}

const pluginDirectory = ({ dataDir }: Cluster) => join(dataDir, 'plugins', 'runtime-oci');

export async function chaosOci(machine: Machine): Promise<ChaosRuntime> {
  const registryConfigDirectory = await machine.registries();
  const bootId = machine.path('boot-id');
  return {
    name: 'oci',
    options: { registryConfigDirectory },
    losesUnwatched: false,
    pid: (cluster) => supervisorOf(cluster.dataDir, 'runtime-oci'),
    running: (cluster) => containersOf('oci', { dir: cluster.dir }),
    async watchersOf(cluster, id) {
      const pids = await processesBelow(pluginDirectory(cluster));
      const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')));
      return pids.filter((_, index) => commands[index]?.includes(id));
    },
    kill9: async (cluster) => killPid(await supervisorOf(cluster.dataDir, 'runtime-oci'), 'SIGKILL'),
    restart: () => Promise.resolve(), // the kubelet's process starts the next supervisor
    async shutDown(cluster) {
      const running = await containersOf('oci', { dir: cluster.dir });
      killPid(await supervisorOf(cluster.dataDir, 'runtime-oci'), 'SIGKILL');
      await endProcessesBelow(pluginDirectory(cluster));
      for (const { pid } of running.values()) killPid(pid, 'SIGKILL');
      await until('the containers have ended', async () => (await containersOf('oci', { dir: cluster.dir })).size === 0);
      await unmountBelow(pluginDirectory(cluster));
      for (const name of await readdir('/run/netns').catch(() => [])) await mustRun('ip', ['netns', 'del', name]);
      // each boot has an id
      await runProgram('umount', [bootIdFile]);
      await writeFile(bootId, '00000000-0000-4000-8000-000000000000\n');
      await mustRun('mount', ['--bind', bootId, bootIdFile]);
      machine.undo('id of the boot', () => mustRun('umount', [bootIdFile]));
    },
    uses: (cluster, cgroupRoot) => ociUses(pluginDirectory(cluster), cgroupRoot),
  };
}

const bootIdFile = '/proc/sys/kernel/random/boot_id';
