import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ociStages, type OciStageName } from '../../conformance/oci-environments.ts';
import { unmountBelow } from '../../fixtures/containerd.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { ociContainers } from '../../harness/containers.ts';
import type { Machine } from '../../harness/machine.ts';
import { ordinaryUser } from '../../harness/ordinary-user.ts';
import { endProcessesBelow, killPid, mustRun, processesBelow, runProgram } from '../../harness/programs.ts';
import { supervisorOf } from '../../harness/supervisor.ts';
import { until } from '../../harness/until.ts';
import type { ChaosRuntime } from './chaos-runtime.ts';
import { ociUses } from './leaked-resources.ts';
import { namespaceOf, nodeOfMachine, nodeOfUser, processes, type NodeView } from './node-view.ts';

/** The loopback address of the machine, for a node without root. */
const gatewayAddress = '198.51.100.1';
const bootIdFile = '/proc/sys/kernel/random/boot_id';
const pluginDirectory = ({ dataDir }: Cluster) => join(dataDir, 'plugins', 'runtime-oci');

/** Opens runtime-oci in a mode. */
export async function chaosOci(machine: Machine, stage: OciStageName): Promise<ChaosRuntime> {
  const { rootless = false, start } = ociStages[stage];
  const { stop } = await start({ dir: machine.path(stage) });
  machine.undo(stage, stop);
  const registryConfigDirectory = await machine.registries(rootless ? gatewayAddress : undefined);
  const supervisor = (cluster: Cluster) => supervisorOf(cluster.dataDir, 'runtime-oci');
  const view = async (cluster: Cluster): Promise<NodeView> => (rootless ? nodeOfUser(await holderOf(cluster)) : nodeOfMachine);
  return {
    name: 'oci',
    options: { registryConfigDirectory },
    ...(rootless && { spec: { rootless }, runAs: ordinaryUser }),
    losesUnwatched: false,
    pid: supervisor,
    running: (cluster) => ociContainers(cluster.dir),
    async watchersOf(cluster, id) {
      const pids = await processesBelow(pluginDirectory(cluster));
      const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')));
      return pids.filter((_, index) => commands[index]?.includes(id));
    },
    kill9: async (cluster) => killPid(await supervisor(cluster), 'SIGKILL'),
    restart: () => Promise.resolve(), // the kubelet's process starts the next supervisor
    async shutDown(cluster) {
      const running = await ociContainers(cluster.dir);
      const namespace = rootless ? await namespaceOf(await holderOf(cluster), 'user') : undefined;
      killPid(await supervisor(cluster), 'SIGKILL');
      await endProcessesBelow(pluginDirectory(cluster));
      for (const { pid } of running.values()) killPid(pid, 'SIGKILL');
      await until('the containers have ended', async () => (await ociContainers(cluster.dir)).size === 0);
      // the kernel denies a user's mounts of /proc while a mount covers a file of it, such as the id of the boot
      if (namespace !== undefined) return endMembers(namespace);
      await unmountBelow(pluginDirectory(cluster));
      for (const name of await readdir('/run/netns').catch(() => [])) await mustRun('ip', ['netns', 'del', name]);
      await changeBootId(machine);
    },
    uses: async (cluster) => ociUses(pluginDirectory(cluster), await view(cluster)),
    view,
  };
}

/** Returns the process that keeps the namespaces of a node without root. */
async function holderOf({ dataDir }: Cluster): Promise<number> {
  return (JSON.parse(await readFile(join(dataDir, 'node', 'namespaces.json'), 'utf8')) as { readonly pid: number }).pid;
}

/** Kills the processes in a user namespace. Its mounts and its network end with them. */
async function endMembers(namespace: string): Promise<void> {
  await until('the namespaces of the node ended', async () => {
    const all = await processes();
    const namespaces = await Promise.all(all.map((pid) => namespaceOf(pid, 'user')));
    const members = all.filter((_, index) => namespaces[index] === namespace);
    for (const pid of members) killPid(pid, 'SIGKILL');
    return members.length === 0;
  });
}

/** Gives the machine the id of another boot: each has its own. */
async function changeBootId(machine: Machine): Promise<void> {
  const bootId = machine.path('boot-id');
  await runProgram('umount', [bootIdFile]);
  await writeFile(bootId, '00000000-0000-4000-8000-000000000000\n', { mode: 0o644 });
  await mustRun('mount', ['--bind', bootId, bootIdFile]);
  machine.undo('id of the boot', () => mustRun('umount', [bootIdFile]));
}
