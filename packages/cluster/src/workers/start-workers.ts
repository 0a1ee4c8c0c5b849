import { metricsText } from '@oarlock/kernel/metrics-text';
import { unionAuthenticator } from '@oarlock/apiserver/authentication/authentication';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Audit } from '@oarlock/spi/audit';
import { Authn } from '@oarlock/spi/authn';
import { Paths } from '@oarlock/spi/paths';
import { Keys } from '@oarlock/spi/cluster';
import { Process } from '@oarlock/spi/process';
import type { Health } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import type { Composition } from '../composition/compose.ts';
import type { Plan } from '../composition/plan.ts';
import type { CallHandlers } from './process-calls.ts';
import { auditCalls, auditWaits } from './remote-audit.ts';
import { describePath, pathCalls } from './remote-paths.ts';
import { RemoteStorageServer } from './storage/remote-storage-server.ts';
import { WorkerPool } from './worker-pool.ts';
import { WorkerProcess } from './worker-process.ts';
import { configKey, type WorkerData } from './worker-protocol.ts';

/** The config of the API server that concerns workers. */
interface ServerConfig {
  readonly workers?: number;
  readonly drainSeconds?: number;
}

/** Returns the workers of a plan; undefined if this process serves the API alone. */
export function openWorkers(
  { roles, plugins }: Plan,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): WorkerPool | undefined {
  if (!roles.includes('apiserver')) return undefined;
  const { workers = 1, drainSeconds = 5 } = (plugins.find(({ name }) => name === 'apiserver')?.config ?? {}) as ServerConfig;
  return workers === 1 ? undefined : new WorkerPool({ count: workers, drainSeconds, clock, log, random: Math.random });
}

export interface StartWorkersOptions {
  readonly pool: WorkerPool;
  readonly composition: Composition;
  readonly dataDir: string;
}

/** Starts the workers of a running composition, and resolves when each is ready or has ended once. */
export async function startWorkers({ pool, composition, dataDir }: StartWorkersOptions): Promise<void> {
  const { host: plugins, plan } = composition;
  const storage = plugins.get(Storage);
  const { locate: _, ...file } = plan.file;
  const data: Omit<WorkerData, 'name' | 'address'> = {
    ...{ count: pool.count, file, dataDir, nodeName: plan.nodeName, facts: plan.facts },
    configs: new Map(plan.plugins.map((planned) => [configKey(planned), planned.config])),
    storage: { traits: storage.traits, skips: storage.skipTo !== undefined },
    paths: plugins.get(Paths).map(describePath),
    auditWaits: auditWaits(plan),
    roles: composition.roles().flatMap(({ name }) => (name === 'apiserver' ? [] : [name])),
  };
  const handlers: CallHandlers = {
    ...pathCalls(plugins.get(Paths), unionAuthenticator(plugins.get(Authn))),
    ...auditCalls(plugins.get(Audit)),
    roleHealth: (name: string): Health | Promise<Health> =>
      composition
        .roles()
        .find((role) => role.name === name)
        ?.checkHealth() ?? { healthy: false, reason: 'no such role' },
  };
  plugins.get(Keys).onChange?.(() => pool.reloadKeys());
  await pool.start(
    (name, address) =>
      new WorkerProcess({
        data: { ...data, name, address },
        handlers: {
          ...handlers,
          otherMetrics: async () => {
            const own = await metricsText(plugins.get(Process).registries());
            return [own.text, ...(await pool.metricsOfWorkers(name))];
          },
        },
        onStorage: (stream) => void new RemoteStorageServer(storage, stream),
      }),
  );
}
