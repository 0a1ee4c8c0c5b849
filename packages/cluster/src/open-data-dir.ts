import { checkRunPlan } from './composition/check-plan.ts';
import { createPlan } from './composition/create-plan.ts';
import type { HostAllocation } from './composition/host-allocation.ts';
import type { Plan, PlanOptions } from './composition/plan.ts';
import type { ClusterFile } from './cluster-file/cluster-file.ts';
import { rejectPartialKeys } from './process/key-restore-marker.ts';
import { DataDirLock } from './process/process-state.ts';

interface DataDirOptions extends PlanOptions {
  readonly file: ClusterFile;
  readonly dataDir: string;
  readonly remote?: { readonly server: string };
}

/** Creates the plan of a process and acquires its data directory. @throws Error if the directory is in use, or contains a part of a backup */
export async function openDataDir(
  options: DataDirOptions,
  allocation: HostAllocation,
): Promise<{ readonly planned: Plan; readonly lock: DataDirLock }> {
  await DataDirLock.check(options.dataDir);
  const { port: _, ...planOptions } = options;
  const server = options.remote && { server: options.remote.server };
  const planned = await createPlan(options.file, { ...planOptions, ...server, allocate: (request) => allocation.allocate(request) });
  checkRunPlan(planned);
  await allocation.claimParts(planned.plugins);
  await allocation.claimPodRanges(planned.plugins, planned.facts);
  const lock = await DataDirLock.acquire(options.dataDir, planned.facts.serverUrl, planned.roles);
  try {
    await rejectPartialKeys(options.dataDir);
    await allocation.save();
  } catch (error) {
    await lock.release();
    throw error;
  }
  return { planned, lock };
}
