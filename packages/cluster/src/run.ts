import { join } from 'node:path';
import { EventBroadcaster } from '@oarlock/client/events';
import { SharedInformers } from '@oarlock/client/informers';
import { loopbackClient, LoopbackSwitchboard } from '@oarlock/client/loopback-client';
import { systemClock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { compose, plan, type Access, type ComposeOptions, type Composition, type Plan } from './compose.ts';
import type { ClusterFile } from './cluster-file.ts';
import { kubeconfig } from './kubeconfig.ts';
import { openKeys, writeAtomic } from './keys.ts';
import { openLog } from './log.ts';
import { adminKubeconfig, DataDirLock, logFile } from './process-state.ts';

/** The identity of everything that runs in one process with the API server. */
const self = { name: 'system:oarlock', groups: ['system:masters', 'system:authenticated'] };

export interface RunOptions extends Omit<ComposeOptions, 'log' | 'tracer'> {
  readonly file: ClusterFile;
  /** For a process without an API server: how to reach one, and the keys it may use. */
  readonly remote?: { readonly client: Client; readonly keys: ClusterKeys };
  readonly signal?: AbortSignal;
}

export interface Running {
  readonly plan: Plan;
  readonly composition: Composition;
  readonly server: string;
  /** Milliseconds from the call to ready. */
  readonly startedInMs: number;
  stop(): Promise<void>;
}

const issuerOf = (domain: string) => `https://kubernetes.default.svc.${domain}`;

/** Starts what a cluster file describes and returns when all of its roles are ready. @throws WiringError; nothing is left running then */
export async function run(options: RunOptions): Promise<Running> {
  const began = performance.now();
  const clock = options.clock ?? systemClock;
  const planned = await plan(options.file, options);
  const lock = await DataDirLock.take(options.dataDir, planned.facts.serverUrl, planned.roles);
  const { log, close } = openLog(logFile(options.dataDir), options.file.spec.log.level);
  try {
    const keys = options.remote?.keys ?? (await openKeys(join(options.dataDir, 'pki'), issuerOf(planned.facts.domain))).keys;
    const access = makeAccess(keys, options.remote?.client, log, clock);
    const composition = compose(planned, access, { ...options, clock, log });
    if (options.remote === undefined) await writeAdminKubeconfig(options.dataDir, planned, keys);
    await composition.start(options.signal);
    const signal = options.signal ?? new AbortController().signal;
    try {
      await Promise.all(composition.roles().map((role) => role.ready?.(signal)));
    } catch (error) {
      await composition.stop();
      throw error;
    }
    await lock.ready();
    const stop = async () => {
      try {
        await composition.stop();
      } finally {
        access.informers.stop();
        await lock.release();
        close();
      }
    };
    return { plan: planned, composition, server: planned.facts.serverUrl, startedInMs: performance.now() - began, stop };
  } catch (error) {
    await lock.release();
    close();
    throw error;
  }
}

function makeAccess(keys: ClusterKeys, remote: Client | undefined, log: Logger, clock: typeof systemClock): Access & { readonly informers: SharedInformers } {
  const loopback = new LoopbackSwitchboard();
  const client = remote ?? loopbackClient(loopback, self);
  return { keys, client, loopback, informers: new SharedInformers(client, { log, clock }), events: new EventBroadcaster(client, { log, clock }) };
}

async function writeAdminKubeconfig(dataDir: string, { facts }: Plan, keys: ClusterKeys): Promise<void> {
  const client = await keys.issue({ commonName: 'kubernetes-admin', organizations: ['system:masters'], usages: ['client'] });
  await writeAtomic(adminKubeconfig(dataDir), kubeconfig({ cluster: facts.name, server: facts.serverUrl, ca: keys.caBundle, user: 'admin', client }));
}
