import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { PodRecord } from '../pod-record.ts';
import { isHostNetwork } from '../pods.ts';
import { interfacesOf, type NetworkUsage } from '../server/node-usage.ts';
import { treeSize, type TreeSize } from '../tree-size.ts';
import type { MountedVolume } from '../volumes/volume-manager.ts';

/** What one pod takes of its node at a moment. Bytes. */
export interface PodUsage {
  readonly memory: number;
  readonly disk: number;
  readonly inodes: number;
  /** By container name. `disk`: writable layer and logs. */
  readonly containers: ReadonlyMap<string, { readonly memory: number; readonly disk: number }>;
  /** Absent where pods have no cgroups of their own to count in. */
  readonly processes?: number;
  /** Of the pod's own network; absent where it has none, or nobody knows. */
  readonly interfaces?: readonly NetworkUsage[];
  /** emptyDir volumes on disk, by name. */
  readonly volumes: ReadonlyMap<string, number>;
}

/** `stats`: of all containers, by id. Reads the disk only when `disk` is asked for, and volumes by `sizeOf`. */
export async function podUsage(
  record: PodRecord,
  stats: ReadonlyMap<string, ContainerStats>,
  disk: boolean,
  sizeOf: (volume: MountedVolume) => Promise<TreeSize> | TreeSize = ({ hostPath }) => treeSize(hostPath),
): Promise<PodUsage> {
  const { state, node, pod, volumes: mounted } = record;
  const containers = new Map<string, { memory: number; disk: number }>();
  const volumes = new Map<string, number>();
  const sum = { memory: 0, disk: 0, inodes: 0 };
  for (const { id, metadata } of state.running) {
    const one = stats.get(id);
    const logs = disk ? await treeSize(join(node.paths.podLogs(pod), metadata.name)) : { bytes: 0, inodes: 0 };
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
  return { ...sum, ...(await ofProcesses(record)), containers, volumes };
}

/** What is known of a pod by the processes in its cgroup. */
export async function ofProcesses({ node, runtime, pod }: PodRecord): Promise<Pick<PodUsage, 'processes' | 'interfaces'>> {
  const pids = await node.cgroups.of(runtime)?.processes(pod);
  if (pids === undefined) return {};
  const processes = pids.length;
  if (isHostNetwork(pod) || runtime?.hub.driver.traits.networkNamespaces !== true) return { processes };
  for (const pid of pids) {
    // one that ends meanwhile leaves its network to others
    const table = await readFile(`/proc/${pid}/net/dev`, 'utf8').catch(() => undefined);
    if (table !== undefined) return { processes, interfaces: interfacesOf(table) };
  }
  return { processes };
}
