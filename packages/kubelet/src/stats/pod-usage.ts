import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerStats, ContainerStatus } from '@oarlock/spi/runtime';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { CgroupRuntime, ContainerManager } from '../container-manager/container-manager.ts';
import { isHostNetwork } from '../pod-util/pods.ts';
import { interfacesOf, type NetworkUsage } from './node-usage.ts';
import { directorySize, type DirectorySize } from '../volumes/tree-size.ts';
import type { MountedVolume, PodVolumes } from '../volumes/volume-manager.ts';

/** The resource usage of one pod at one moment, in bytes. */
export interface PodUsage {
  readonly memory: number;
  readonly disk: number;
  readonly inodes: number;
  /** The usage of each container, keyed by container name. `disk` is the size of the writable layer and of the logs. */
  readonly containers: ReadonlyMap<string, { readonly memory: number; readonly disk: number }>;
  /** The number of the pod's processes; undefined if the pod has no cgroup. */
  readonly processes?: number;
  /** The interfaces of the pod's network namespace; undefined if the pod has none or its interfaces cannot be read. */
  readonly interfaces?: readonly NetworkUsage[];
  /** The bytes of the emptyDir volumes that are on disk, keyed by volume name. */
  readonly volumes: ReadonlyMap<string, number>;
}

/** The properties of a pod that `podUsage` reads. */
export interface MeasuredPod {
  readonly pod: Pod;
  readonly state: { readonly runningContainers: Iterable<ContainerStatus> };
  readonly volumes: PodVolumes;
  readonly runtime:
    | (CgroupRuntime & { readonly pleg: { readonly driver: { readonly traits: { readonly networkNamespaces?: boolean } } } })
    | undefined;
  readonly node: {
    readonly paths: { podLogs(pod: Pod): string };
    readonly containerManager: Pick<ContainerManager, 'podContainerManager'>;
  };
}

/** The runtime's statistics and the disk usage of a pod. */
export interface PodUsageSources {
  readonly stats: ReadonlyMap<string, ContainerStats>;
  readonly disk: boolean;
  readonly sizeOf?: (volume: MountedVolume) => Promise<DirectorySize> | DirectorySize;
}

/**
 * Computes the resource usage of a pod. `stats` contains the stats of all containers, keyed by container id. The disk is read only if `disk` is
 * true; `sizeOf` measures emptyDir volumes.
 */
export async function podUsage(
  record: MeasuredPod,
  { stats, disk, sizeOf = ({ hostPath }) => directorySize(hostPath) }: PodUsageSources,
): Promise<PodUsage> {
  const { state, node, pod, volumes: mounted } = record;
  const containers = new Map<string, { memory: number; disk: number }>();
  const volumes = new Map<string, number>();
  const sum = { memory: 0, disk: 0, inodes: 0 };
  for (const { id, metadata } of state.runningContainers) {
    const one = stats.get(id);
    const logs = disk ? await directorySize(join(node.paths.podLogs(pod), metadata.name)) : { bytes: 0, inodes: 0 };
    const usage = { memory: one?.memoryWorkingSetBytes ?? 0, disk: (one?.writableLayerBytes ?? 0) + logs.bytes };
    containers.set(metadata.name, usage);
    sum.memory += usage.memory;
    sum.disk += usage.disk;
    sum.inodes += (one?.writableLayerInodes ?? 0) + logs.inodes;
  }
  if (disk)
    for (const { name, emptyDir } of pod.spec?.volumes ?? []) {
      const volume = mounted.get(name);
      if (emptyDir === undefined || emptyDir.medium === 'Memory' || volume === undefined) continue;
      const { bytes, inodes } = await sizeOf(volume);
      volumes.set(name, bytes);
      sum.disk += bytes;
      sum.inodes += inodes;
    }
  return { ...sum, ...(await processUsage(record)), containers, volumes };
}

/** Returns the number of the pod's processes and the pod's network interfaces, found through the processes in the pod's cgroup. */
export async function processUsage({ node, runtime, pod }: MeasuredPod): Promise<Pick<PodUsage, 'processes' | 'interfaces'>> {
  const pids = await node.containerManager.podContainerManager(runtime)?.processes(pod);
  if (pids === undefined) return {};
  const processes = pids.length;
  if (isHostNetwork(pod) || runtime?.pleg.driver.traits.networkNamespaces !== true) return { processes };
  for (const pid of pids) {
    // a process may exit meanwhile; any other process of the pod has the same interfaces
    const table = await readFile(`/proc/${pid}/net/dev`, 'utf8').catch(() => undefined);
    if (table !== undefined) return { processes, interfaces: interfacesOf(table) };
  }
  return { processes };
}
