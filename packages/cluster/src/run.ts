import { join } from 'node:path';
import { EventWriter } from '@oarlock/client/events';
import { SharedInformers } from '@oarlock/client/informers';
import { loopbackClient, LoopbackSwitchboard } from '@oarlock/client/loopback-client';
import { systemClock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { openTracing } from '@oarlock/tracing/tracing';
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
  const undo: (() => Promise<void> | void)[] = [close, () => lock.release()];
  const stop = async () => {
    const failures: unknown[] = [];
    for (const each of undo.splice(0).reverse()) {
      try {
        await each();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  };
  try {
    const signal = options.signal ?? new AbortController().signal;
    const keys = options.remote?.keys ?? (await openKeys(join(options.dataDir, 'pki'), issuerOf(planned.facts.domain))).keys;
    const loopback = new LoopbackSwitchboard();
    const client = options.remote?.client ?? loopbackClient(loopback, self);
    const { enabled, keep, otlp } = options.file.spec.tracing;
    const tracing = openTracing({
      enabled,
      keep,
      otlp,
      clock,
      log,
      ...(options.remote && {
        forward: async (spans) => {
          await client.raw('POST', '/oarlock/v1/spans', { spans });
        },
      }),
    });
    undo.push(() => tracing.flush());
    const informers = new SharedInformers({ client, log, clock });
    const events = new EventWriter({ client, log, clock, random: Math.random });
    undo.push(
      () => informers.stop(),
      () => events.stop(),
    );
    const access: Access = { keys, client, informers, events, loopback, spans: tracing.store };
    const composition = compose(planned, access, { ...options, clock, log, tracer: (plugin) => tracing.tracer(plugin) });
    if (options.remote === undefined) await writeAdminKubeconfig(options.dataDir, planned, keys);
    informers.start();
    undo.push(() => composition.stop());
    await composition.start(signal);
    await Promise.all(composition.roles().map((role) => role.ready?.(signal)));
    await lock.ready();
    log.info({ roles: planned.roles, ms: Math.round(performance.now() - began) }, 'ready');
    return { plan: planned, composition, server: planned.facts.serverUrl, startedInMs: performance.now() - began, stop };
  } catch (error) {
    if (options.signal?.aborted === true) log.info({}, 'stopped before it was ready');
    else log.error({ err: error }, 'could not start');
    await stop();
    throw error;
  }
}

async function writeAdminKubeconfig(dataDir: string, { facts }: Plan, keys: ClusterKeys): Promise<void> {
  const client = await keys.issue({ commonName: 'kubernetes-admin', organizations: ['system:masters'], usages: ['client'] });
  await writeAtomic(
    adminKubeconfig(dataDir),
    kubeconfig({ cluster: facts.name, server: facts.serverUrl, ca: keys.caBundle, user: 'admin', client }),
  );
}
