import { parseQuantity, value, type Amount } from '@oarlock/api/quantity';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { Kubelet } from '../kubelet.ts';
import { podUsage } from '../node/pod-usage.ts';
import type { PodWorker } from '../pod-worker.ts';
import { findContainer } from '../pods.ts';
import { podLimit } from '../resources.ts';
import { diskUsage, nodeUsage, type NetworkUsage, type NodeUsage } from './node-usage.ts';
import { volumeStats } from './volume-stats.ts';

/** Usage of everything that runs, at one moment. */
export interface Snapshot {
  readonly at: number;
  /** Undefined for nodes that are no machines. */
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

export async function snapshot(kubelet: Kubelet, signal: AbortSignal): Promise<Snapshot> {
  const now = kubelet.context.clock.now();
  const runtimes = [...kubelet.runtimes];
  const [node, lists] = await Promise.all([
    runtimes.every(({ hub }) => hub.simulated) ? undefined : nodeUsage(now),
    Promise.all(runtimes.map(({ hub }) => hub.driver.listContainerStats({}, { signal }))),
  ]);
  const stats = new Map(lists.flat().map((one) => [one.id, one]));
  const pods: PodSnapshot[] = [];
  for (const agent of kubelet.agents.values()) {
    for (const worker of agent.pods.workers) {
      const containers = worker.state.running.flatMap(({ id, metadata, startedAt, createdAt, image }) => {
        const one = stats.get(id);
        return one ? [{ name: metadata.name, startedAt: startedAt ?? createdAt, image, stats: one }] : [];
      });
      if (containers.length > 0) pods.push({ worker, containers });
    }
  }
  return { at: now, node, pods };
}

/** Of a limit, as upstream says it: absent without one. */
const availableOf = (limit: Amount | undefined, used: number) =>
  limit !== undefined && limit.sign > 0 ? { availableBytes: Math.max(0, value(limit) - used) } : {};
const limitOf = (pod: Pod, container: string) => {
  const limit = findContainer(pod, container)?.container.resources?.limits?.['memory'];
  return limit === undefined ? undefined : parseQuantity(limit);
};
/** The interface that stands for all, as upstream's summary has it. */
const primary = (interfaces: readonly NetworkUsage[]) => interfaces.find(({ name }) => name === 'eth0') ?? interfaces[0] ?? {};

/** How fast something counted up between two looks. */
class Rates {
  #last = new Map<string, { readonly at: number; readonly nanos: number }>();
  #next = new Map<string, { readonly at: number; readonly nanos: number }>();

  /** Nanoseconds of cpu in a second; undefined at the first look. */
  of(key: string, at: number, nanos: number): number | undefined {
    const last = this.#last.get(key);
    this.#next.set(key, { at, nanos });
    return last === undefined || at <= last.at || nanos < last.nanos
      ? undefined
      : Math.round(((nanos - last.nanos) * 1000) / (at - last.at));
  }
  /** The look is over: what was not seen is forgotten. */
  over(): void {
    this.#last = this.#next;
    this.#next = new Map();
  }
}

/** What `/stats/summary` tells: usage of the node, its pods and their containers. */
export class StatsSummary {
  readonly #kubelet: Kubelet;
  readonly #rates = new Rates();

  constructor(kubelet: Kubelet) {
    this.#kubelet = kubelet;
  }

  async read(signal: AbortSignal): Promise<unknown> {
    const kubelet = this.#kubelet;
    const { at, node, pods } = await snapshot(kubelet, signal);
    const all = new Map(pods.flatMap(({ containers }) => containers.map(({ stats }) => [stats.id, stats] as const)));
    const told = await Promise.all(pods.map((pod) => this.#pod(pod, all)));
    const [nodeName = ''] = kubelet.agents.keys();
    const time = formatTime(at);
    const [fs, imageFs] = await Promise.all([node && diskUsage(kubelet.context.paths.root), node && this.#imageFs(signal)]);
    const sum = (of: (stats: ContainerStats) => number) => [...all.values()].reduce((total, one) => total + of(one), 0);
    const summary = {
      node: {
        nodeName,
        startTime: formatTime(at - Math.round(process.uptime() * 1000)),
        cpu: this.#cpu('', at, node?.cpuNanos ?? sum((one) => one.cpuUsageNanos)),
        memory: {
          time,
          ...(node && {
            availableBytes: node.memoryAvailable,
            usageBytes: node.memoryUsage,
            rssBytes: node.memoryTotal - node.memoryAvailable,
          }),
          workingSetBytes: node ? node.memoryTotal - node.memoryAvailable : sum((one) => one.memoryWorkingSetBytes),
        },
        ...(node && {
          network: { time, ...primary(node.interfaces), interfaces: node.interfaces },
          swap: { time, swapAvailableBytes: node.swapTotal - node.swapUsage, swapUsageBytes: node.swapUsage },
          rlimit: { time, maxpid: node.maxProcesses, curproc: node.processes },
        }),
        ...(fs && { fs: { time, ...fs } }),
        ...(imageFs && { runtime: { imageFs: { time, ...imageFs }, containerFs: { time, ...imageFs } } }),
      },
      pods: told,
    };
    this.#rates.over();
    return summary;
  }

  async #pod({ worker, containers }: PodSnapshot, all: ReadonlyMap<string, ContainerStats>) {
    const { record } = worker;
    const { name, namespace, uid } = record;
    const disk = record.runtime?.hollow === false;
    const measured = await this.#kubelet.context.usages.of(record);
    const usage = await podUsage(record, all, disk, (volume) => {
      const { usedBytes = 0, inodesUsed = 0 } = measured.find((one) => one.volume === volume)?.usage ?? {};
      return { bytes: usedBytes, inodes: inodesUsed };
    });
    const told = containers.map(({ name: container, startedAt, stats }) => {
      const time = formatTime(stats.at);
      return {
        name: container,
        startTime: formatTime(startedAt),
        cpu: this.#cpu(stats.id, stats.at, stats.cpuUsageNanos),
        memory: {
          time,
          workingSetBytes: stats.memoryWorkingSetBytes,
          rssBytes: stats.memoryRssBytes,
          usageBytes: stats.memoryWorkingSetBytes,
          ...availableOf(limitOf(record.pod, container), stats.memoryWorkingSetBytes),
        },
        rootfs: { time, usedBytes: stats.writableLayerBytes, inodesUsed: stats.writableLayerInodes },
        ...(disk && {
          logs: { time, usedBytes: (usage.containers.get(container)?.disk ?? stats.writableLayerBytes) - stats.writableLayerBytes },
        }),
      };
    });
    const time = told[0]?.cpu.time;
    const cpu = told.reduce((total, one) => total + one.cpu.usageCoreNanoSeconds, 0);
    const rates = told.map((one) => one.cpu.usageNanoCores);
    return {
      podRef: { name, namespace, uid },
      startTime: record.status?.startTime,
      containers: told,
      cpu: {
        time,
        usageCoreNanoSeconds: cpu,
        ...(rates.every((rate) => rate !== undefined) && { usageNanoCores: rates.reduce((total: number, rate) => total + (rate ?? 0), 0) }),
      },
      memory: {
        time,
        workingSetBytes: usage.memory,
        usageBytes: usage.memory,
        ...availableOf(podLimit(record.pod, 'memory'), usage.memory),
      },
      ...(usage.interfaces && { network: { time, ...primary(usage.interfaces), interfaces: usage.interfaces } }),
      ...(usage.processes !== undefined && { process_stats: { process_count: usage.processes } }),
      ...(disk && {
        'ephemeral-storage': { time, usedBytes: usage.disk, inodesUsed: usage.inodes },
        volume: measured.map(volumeStats),
      }),
    };
  }

  #cpu(key: string, at: number, nanos: number) {
    const rate = this.#rates.of(key, at, nanos);
    return { time: formatTime(at), ...(rate !== undefined && { usageNanoCores: rate }), usageCoreNanoSeconds: nanos };
  }

  async #imageFs(signal: AbortSignal) {
    for (const { hub } of this.#kubelet.runtimes) {
      if (!hub.driver.traits.images || hub.simulated) continue;
      const { mountpoint, usedBytes, inodesUsed } = await hub.driver.imageFsInfo({ signal });
      const disk = await diskUsage(mountpoint);
      if (disk) return { ...disk, usedBytes, inodesUsed };
    }
    return undefined;
  }
}
