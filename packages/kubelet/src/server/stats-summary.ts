import { formatTime } from '@oarlock/api/time';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { Kubelet } from '../kubelet.ts';
import type { PodWorker } from '../pod-worker.ts';

function containerOf({ record }: PodWorker, stats: ContainerStats) {
  const status = record.state.container(stats.id);
  return {
    name: status?.metadata.name ?? '',
    startTime: formatTime(status?.startedAt ?? status?.createdAt ?? 0),
    cpu: { time: formatTime(stats.at), usageCoreNanoSeconds: stats.cpuUsageNanos },
    memory: {
      time: formatTime(stats.at),
      workingSetBytes: stats.memoryWorkingSetBytes,
      rssBytes: stats.memoryRssBytes,
      usageBytes: stats.memoryWorkingSetBytes,
    },
    rootfs: { time: formatTime(stats.at), usedBytes: stats.writableLayerBytes, inodesUsed: stats.writableLayerInodes },
  };
}

/** What the resource metrics API is made from: usage of each container that runs, and their sums. */
export async function statsSummary(kubelet: Kubelet, signal: AbortSignal): Promise<unknown> {
  const stats = new Map<string, ContainerStats>();
  for (const { hub } of kubelet.runtimes) for (const one of await hub.driver.listContainerStats({}, { signal })) stats.set(one.id, one);
  const pods = [];
  const sum = { cpu: 0, memory: 0 };
  for (const agent of kubelet.agents.values()) {
    for (const worker of agent.pods.workers) {
      const containers = worker.state.running.flatMap(({ id }) => {
        const one = stats.get(id);
        return one ? [containerOf(worker, one)] : [];
      });
      if (containers.length === 0) continue;
      const cpu = containers.reduce((total, one) => total + one.cpu.usageCoreNanoSeconds, 0);
      const memory = containers.reduce((total, one) => total + one.memory.workingSetBytes, 0);
      sum.cpu += cpu;
      sum.memory += memory;
      const { name, namespace, uid } = worker.record;
      const time = containers[0]?.cpu.time;
      pods.push({
        podRef: { name, namespace, uid },
        startTime: worker.record.status?.startTime,
        containers,
        cpu: { time, usageCoreNanoSeconds: cpu },
        memory: { time, workingSetBytes: memory },
      });
    }
  }
  const time = formatTime(kubelet.context.clock.now());
  return {
    node: {
      nodeName: [...kubelet.agents.keys()][0],
      cpu: { time, usageCoreNanoSeconds: sum.cpu },
      memory: { time, workingSetBytes: sum.memory },
    },
    pods,
  };
}
