import { parseQuantity, quantityValue, type ParsedQuantity } from '@oarlock/api/values/quantity';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ContainerStats } from '@oarlock/spi/runtime';
import { podInterface } from '@oarlock/spi/network';
import type { Kubelet } from '../../kubelet/kubelet.ts';
import { podUsage } from '../../stats/pod-usage.ts';
import type { PodWorker } from '../../pod/worker/pod-worker.ts';
import { findContainer } from '../../pod-util/pods.ts';
import { podLimit } from '../../pod-util/resources.ts';
import { diskUsage, nodeUsage, type NetworkUsage, type NodeUsage } from '../../stats/node-usage.ts';
import { machinePressure, type Pressure } from '../../stats/pressure.ts';
import { podPressure } from './pressure-stats.ts';
import { volumeStats } from './volume-stats.ts';

/** The resource usage of all running containers at one moment. */
export interface StatsSnapshot {
  readonly at: number;
  /** The usage of the node; undefined for simulated nodes. */
  readonly node: NodeUsage | undefined;
  readonly pods: readonly PodSnapshot[];
}
export interface PodSnapshot {
  readonly worker: PodWorker;
  readonly containers: readonly {
    readonly name: string;
    readonly startedAt: number;
    readonly image: string;
    readonly stats: ContainerStats;
  }[];
}

export async function takeStatsSnapshot(kubelet: Kubelet, signal: AbortSignal): Promise<StatsSnapshot> {
  const now = kubelet.context.clock.now();
  const runtimes = [...kubelet.runtimes];
  const [node, lists] = await Promise.all([
    runtimes.every(({ pleg }) => pleg.simulated) ? undefined : nodeUsage(now),
    Promise.all(runtimes.map(({ pleg }) => pleg.driver.listContainerStats({}, { signal }))),
  ]);
  const stats = new Map(lists.flat().map((one) => [one.id, one]));
  const pods: PodSnapshot[] = [];
  for (const agent of kubelet.agents.values()) {
    for (const worker of agent.pods.workers) {
      const containers = worker.state.runningContainers.flatMap(({ id, metadata, startedAt, createdAt, image }) => {
        const one = stats.get(id);
        return one ? [{ name: metadata.name, startedAt: startedAt ?? createdAt, image, stats: one }] : [];
      });
      if (containers.length > 0) pods.push({ worker, containers });
    }
  }
  return { at: now, node, pods };
}

/** Returns the available quantity: the limit minus the usage. As upstream, undefined without a limit. */
const availableOf = (limit: ParsedQuantity | undefined, used: number) =>
  limit !== undefined && limit.sign > 0 ? { availableBytes: Math.max(0, quantityValue(limit) - used) } : {};
const limitOf = (pod: Pod, container: string) => {
  const limit = findContainer(pod, container)?.container.resources?.limits?.['memory'];
  return limit === undefined ? undefined : parseQuantity(limit);
};
/** Returns the default network interface, whose usage is at the top level of upstream's summary. */
const primary = (interfaces: readonly NetworkUsage[]) => interfaces.find(({ name }) => name === podInterface) ?? interfaces[0] ?? {};

const psi = (pressure: Pressure['cpu']) => pressure && { psi: pressure };
const io = (time: string | undefined, { io: pressure }: Pressure) => pressure && { io: { time, psi: pressure } };

/** Computes CPU usage rates from two reads of cumulative CPU counters. */
class CpuRates {
  #last = new Map<string, { readonly at: number; readonly nanos: number }>();
  #next = new Map<string, { readonly at: number; readonly nanos: number }>();

  /** Returns the CPU usage rate in nanoseconds per second since the previous read; undefined at the first read. */
  of(key: string, at: number, nanos: number): number | undefined {
    const last = this.#last.get(key);
    this.#next.set(key, { at, nanos });
    return last === undefined || at <= last.at || nanos < last.nanos
      ? undefined
      : Math.round(((nanos - last.nanos) * 1000) / (at - last.at));
  }
  /** Ends a read: drops the counters that this read did not contain. */
  endRead(): void {
    this.#last = this.#next;
    this.#next = new Map();
  }
}

/** Provides the response of `/stats/summary`: the usage of the node, its pods and their containers. */
export class StatsSummary {
  readonly #kubelet: Kubelet;
  readonly #rates = new CpuRates();

  constructor(kubelet: Kubelet) {
    this.#kubelet = kubelet;
  }

  async read(signal: AbortSignal): Promise<unknown> {
    const kubelet = this.#kubelet;
    const { at, node, pods } = await takeStatsSnapshot(kubelet, signal);
    const all = new Map(pods.flatMap(({ containers }) => containers.map(({ stats }) => [stats.id, stats] as const)));
    const podStats = await Promise.all(pods.map((pod) => this.#pod(pod, all)));
    const [nodeName = ''] = kubelet.agents.keys();
    const time = formatTime(at);
    const [fs, imageFs, pressure = {}] = await Promise.all([
      node && diskUsage(kubelet.context.paths.root),
      node && this.#imageFs(signal),
      node && machinePressure(),
    ]);
    const sum = (of: (stats: ContainerStats) => number) => [...all.values()].reduce((total, one) => total + of(one), 0);
    const summary = {
      node: {
        nodeName,
        startTime: formatTime(at - Math.round(process.uptime() * 1000)),
        cpu: { ...this.#cpu('', at, node?.cpuNanos ?? sum((one) => one.cpuUsageNanos)), ...psi(pressure.cpu) },
        memory: {
          time,
          ...(node && {
            availableBytes: node.memoryAvailable,
            usageBytes: node.memoryUsage,
            rssBytes: node.memoryTotal - node.memoryAvailable,
          }),
          workingSetBytes: node ? node.memoryTotal - node.memoryAvailable : sum((one) => one.memoryWorkingSetBytes),
          ...psi(pressure.memory),
        },
        ...io(time, pressure),
        ...(node && {
          network: { time, ...primary(node.interfaces), interfaces: node.interfaces },
          swap: { time, swapAvailableBytes: node.swapTotal - node.swapUsage, swapUsageBytes: node.swapUsage },
          rlimit: { time, maxpid: node.maxProcesses, curproc: node.processes },
        }),
        ...(fs && { fs: { time, ...fs } }),
        ...(imageFs && { runtime: { imageFs: { time, ...imageFs }, containerFs: { time, ...imageFs } } }),
      },
      pods: podStats,
    };
    this.#rates.endRead();
    return summary;
  }

  async #pod({ worker, containers }: PodSnapshot, all: ReadonlyMap<string, ContainerStats>) {
    const { record } = worker;
    const { name, namespace, uid } = record;
    const disk = record.runtime?.hollow === false;
    const [measured, pressure] = await Promise.all([this.#kubelet.context.volumeStats.volumeStats(record), podPressure(worker)]);
    const usage = await podUsage(record, {
      stats: all,
      disk,
      sizeOf: (volume) => {
        const { usedBytes = 0, inodesUsed = 0 } = measured.find((one) => one.volume === volume)?.usage ?? {};
        return { bytes: usedBytes, inodes: inodesUsed };
      },
    });
    const containerStats = containers.map((container) => ({
      ...this.#container(container, limitOf(record.pod, container.name), pressure.ofContainer(container.stats.id)),
      ...(disk && {
        logs: {
          time: formatTime(container.stats.at),
          usedBytes:
            (usage.containers.get(container.name)?.disk ?? container.stats.writableLayerBytes) - container.stats.writableLayerBytes,
        },
      }),
    }));
    const time = containerStats[0]?.cpu.time;
    const cpu = containerStats.reduce((total, one) => total + one.cpu.usageCoreNanoSeconds, 0);
    const rates = containerStats.map((one) => one.cpu.usageNanoCores);
    return {
      podRef: { name, namespace, uid },
      startTime: record.status?.startTime,
      containers: containerStats,
      cpu: {
        time,
        usageCoreNanoSeconds: cpu,
        ...(rates.every((rate) => rate !== undefined) && { usageNanoCores: rates.reduce((total: number, rate) => total + (rate ?? 0), 0) }),
        ...psi(pressure.ofPod.cpu),
      },
      memory: {
        time,
        workingSetBytes: usage.memory,
        usageBytes: usage.memory,
        ...availableOf(podLimit(record.pod, 'memory'), usage.memory),
        ...psi(pressure.ofPod.memory),
      },
      ...io(time, pressure.ofPod),
      ...(usage.interfaces && { network: { time, ...primary(usage.interfaces), interfaces: usage.interfaces } }),
      ...(usage.processes !== undefined && { process_stats: { process_count: usage.processes } }),
      ...(disk && {
        'ephemeral-storage': { time, usedBytes: usage.disk, inodesUsed: usage.inodes },
        volume: measured.map(volumeStats),
      }),
    };
  }

  #container({ name, startedAt, stats }: PodSnapshot['containers'][number], limit: ParsedQuantity | undefined, pressure: Pressure) {
    const time = formatTime(stats.at);
    return {
      name,
      startTime: formatTime(startedAt),
      cpu: { ...this.#cpu(stats.id, stats.at, stats.cpuUsageNanos), ...psi(pressure.cpu) },
      memory: {
        time,
        workingSetBytes: stats.memoryWorkingSetBytes,
        rssBytes: stats.memoryRssBytes,
        usageBytes: stats.memoryWorkingSetBytes,
        ...availableOf(limit, stats.memoryWorkingSetBytes),
        ...psi(pressure.memory),
      },
      ...io(time, pressure),
      rootfs: { time, usedBytes: stats.writableLayerBytes, inodesUsed: stats.writableLayerInodes },
    };
  }

  #cpu(key: string, at: number, nanos: number) {
    const rate = this.#rates.of(key, at, nanos);
    return { time: formatTime(at), ...(rate !== undefined && { usageNanoCores: rate }), usageCoreNanoSeconds: nanos };
  }

  async #imageFs(signal: AbortSignal) {
    for (const { pleg } of this.#kubelet.runtimes) {
      if (!pleg.driver.traits.images || pleg.simulated) continue;
      const { mountpoint, usedBytes, inodesUsed } = await pleg.driver.imageFsInfo({ signal });
      const disk = await diskUsage(mountpoint);
      if (disk) return { ...disk, usedBytes, inodesUsed };
    }
    return undefined;
  }
}
