import type { Plugin } from '@oarlock/kernel/plugin';
import { Audit } from '@oarlock/spi/audit';
import { Paths } from '@oarlock/spi/paths';
import { Storage } from '@oarlock/spi/storage';
import { z } from 'zod';
import { createPlan } from '../composition/create-plan.ts';
import type { Plan, PlannedPlugin } from '../composition/plan.ts';
import type { ProcessCalls } from './process-calls.ts';
import { remoteAuditPlugin } from './remote-audit.ts';
import { remotePathPlugins } from './remote-paths.ts';
import type { RemoteStorage } from './storage/remote-storage.ts';
import { configKey, type WorkerData } from './worker-protocol.ts';

/** The plugins of which only the first process has instances. */
const onceOnly: ReadonlySet<symbol> = new Set([Storage.token, Audit.token, Paths.token]);

/**
 * Returns the plan of a worker: the API server with its plugins as the first process runs them. The storage, the audit sinks and the handlers of paths
 * are those of the first process.
 */
export async function planWorker(
  data: WorkerData,
  { storage, calls }: { readonly storage: RemoteStorage; readonly calls: Pick<ProcessCalls, 'call'> },
): Promise<Plan> {
  const { file, nodeName, facts, configs } = data;
  const { port } = data.address;
  const plan = await createPlan({ ...file, locate: () => undefined }, { roles: ['apiserver'], nodeName, port });
  const own = plan.plugins
    .filter(({ plugin }) => !onceOnly.has(plugin.provides.token))
    .map((planned) => ({ ...planned, config: configs.get(configKey(planned)) ?? planned.config }));
  const hasAudit = plan.plugins.some(({ plugin }) => plugin.provides.token === Audit.token);
  const remote = [
    Storage.plugin({
      id: 'storage-of-first-process',
      declares: { durable: storage.traits.durable, shared: storage.traits.shared },
      config: z.strictObject({}),
      create: () => storage,
    }),
    ...(hasAudit ? [remoteAuditPlugin(calls, data.auditWaits)] : []),
    ...remotePathPlugins(data.paths, calls),
  ];
  return { ...plan, facts, plugins: [...remote.map(planned), ...own] };
}

const planned = (plugin: Plugin): PlannedPlugin => ({ plugin, name: plugin.id, config: {}, path: 'spec', segments: ['spec'] });
