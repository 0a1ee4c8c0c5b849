import type { ContainerStats } from '@oarlock/spi/runtime';
import { allProcesses, cpuNanos, pageBytes, processesOf } from '../../host/process-table.ts';
import type { RunningContainer } from '../running-container.ts';

/** A process container has no file system of its own. */
const noLayer = { writableLayerBytes: 0, writableLayerInodes: 0 } as const;

/** Reads stats from control groups if containers have them, otherwise from one scan of the process table. */
export async function readContainerStats(
  containers: readonly { readonly id: string; readonly running: RunningContainer }[],
  at: number,
): Promise<readonly ContainerStats[]> {
  const processes = containers.some(({ running }) => running.cgroup === undefined) ? await allProcesses() : [];
  return Promise.all(
    containers.map(async ({ id, running }): Promise<ContainerStats> => {
      if (running.cgroup) {
        const usage = running.cgroup.usage();
        return {
          id,
          at,
          cpuUsageNanos: usage.cpuNanos,
          memoryWorkingSetBytes: usage.workingSetBytes,
          memoryRssBytes: usage.rssBytes,
          ...noLayer,
        };
      }
      const members = processesOf(running.group.pid, processes);
      const resident = members.reduce((sum, { residentPages }) => sum + residentPages, 0) * (members.length > 0 ? pageBytes() : 0);
      return { id, at, cpuUsageNanos: await cpuNanos(members), memoryWorkingSetBytes: resident, memoryRssBytes: resident, ...noLayer };
    }),
  );
}
